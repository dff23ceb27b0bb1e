#include "chapters/09_llama/tokenizer_file.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <tuple>
#include <unordered_map>

#include "chapters/09_llama/tokenizer_bytes.hpp"
#include "common/check.hpp"
#include "common/support/shallow_json.hpp"

namespace course {
namespace {

using nlohmann::json;

constexpr std::size_t longest_reason = 240;  // bytes: the JSON library quotes the whole value it stumbles on

// An object of the file and its name in messages.
struct Section {
  const json& value;
  std::string name;

  Section(const json& v, std::string n) : value(v), name(std::move(n)) {
    require(value.is_object(), name, " is no object");
  }
  bool absent(const char* key) const { return !value.contains(key) || value.at(key).is_null(); }
  const json& at(const char* key) const {
    require(!absent(key), name, " has no ", key);
    return value.at(key);
  }
  bool flag(const char* key, bool otherwise) const {
    if (absent(key)) return otherwise;
    require(value.at(key).is_boolean(), name, ": ", key, " is neither true nor false");
    return value.at(key).get<bool>();
  }
  std::string text(const char* key) const {
    require(at(key).is_string(), name, ": ", key, " is no text");
    return at(key).get<std::string>();
  }
  void refuse_flag(const char* key) const { require(!flag(key, false), name, ": ", key, " is not supported"); }
  // Whatever is there must say nothing: null, "" or 0.
  void refuse_value(const char* key) const {
    require(absent(key) || value.at(key) == "" || value.at(key) == 0, name, ": ", key, " is not supported");
  }
};

using Ids = std::unordered_map<std::string, std::int32_t>;

std::int64_t id_of(const json& value, const std::string& token) {
  require(value.is_number_integer() && value >= 0 && value <= INT32_MAX, "the id of token ", in_quotes(token), " is ",
          value.is_number() ? value.dump() : value.type_name());
  return value.get<std::int64_t>();
}

// Fills tokens, in_vocab and added.
void read_tokens(const json& vocab, const json& added, TokenizerData& data) {
  struct Entry {
    std::string token;
    std::int64_t id;
    bool in_vocab;
  };
  std::vector<Entry> entries;
  require(vocab.is_object(), "model: vocab is no object");
  for (const auto& [token, id] : vocab.items()) entries.push_back({token, id_of(id, token), true});

  require(added.is_array() || added.is_null(), "added_tokens is no list");
  for (const auto& item : added) {
    const Section token(item, "added token");
    const std::string content = token.text("content");
    const Section named(item, cat("added token ", in_quotes(content)));
    require(!content.empty(), "an added token has no text");
    for (const char* key : {"lstrip", "rstrip", "single_word"}) named.refuse_flag(key);
    const std::int64_t id = id_of(named.at("id"), content);
    if (vocab.contains(content))
      require(vocab.at(content) == id, named.name, " has id ", id, ", in vocab it has ", vocab.at(content).dump());
    else
      entries.push_back({content, id, false});
    const bool special = named.flag("special", false);
    data.added.push_back({static_cast<std::int32_t>(id), special, named.flag("normalized", !special)});
  }
  std::sort(data.added.begin(), data.added.end(), [](auto& a, auto& b) { return a.id < b.id; });

  std::sort(entries.begin(), entries.end(),
            [](auto& a, auto& b) { return std::tie(a.id, a.token) < std::tie(b.id, b.token); });
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const auto& [token, id, in_vocab] = entries[i];
    if (i > 0 && id == entries[i - 1].id)
      fail(cat("tokens ", in_quotes(entries[i - 1].token), " and ", in_quotes(token), " both have id ", id));
    require(id == static_cast<std::int64_t>(i), "the ids have a hole: no token has id ", i, ", yet ", in_quotes(token),
            " has ", id);
    data.tokens.push_back(token);
    data.in_vocab.push_back(in_vocab);
  }
}

std::pair<std::string, std::string> halves(const json& merge) {
  if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string())
    return {merge[0], merge[1]};
  if (merge.is_string()) {
    const std::string text = merge;
    const std::size_t blank = text.find(' ');
    if (blank != std::string::npos && text.find(' ', blank + 1) == std::string::npos)
      return {text.substr(0, blank), text.substr(blank + 1)};
  }
  const std::string what = merge.is_string() ? merge.get<std::string>() : merge.type_name();
  fail(cat("a merge is neither \"a b\" nor [\"a\", \"b\"] but ", in_quotes(what)));
}

std::vector<Merge> read_merges(const json& list, const TokenizerData& data) {
  require(list.is_array(), "model: merges is no list");
  Ids ids;
  for (std::size_t i = 0; i < data.tokens.size(); ++i)
    if (data.in_vocab[i]) ids.emplace(data.tokens[i], static_cast<std::int32_t>(i));
  std::vector<Merge> merges;
  for (const auto& item : list) {
    const auto pair = halves(item);
    const std::string &left = pair.first, &right = pair.second;
    auto id = [&](const std::string& token) {
      const auto found = ids.find(token);
      require(found != ids.end(), "merge ", merges.size(), " of ", in_quotes(left), " and ", in_quotes(right),
              ": vocab has no ", in_quotes(token));
      return found->second;
    };
    merges.push_back({id(left), id(right), id(left + right)});
  }
  return merges;
}

std::optional<std::string> read_pre_tokenizer(const json& value) {
  auto byte_level = [](const Section& section, bool use_regex) {
    require(section.text("type") == "ByteLevel", "pre_tokenizer: ", in_quotes(section.text("type")),
            " is not supported");
    require(!section.flag("add_prefix_space", true), "pre_tokenizer: add_prefix_space is not supported");
    require(section.flag("use_regex", true) == use_regex, "pre_tokenizer: ByteLevel with use_regex ",
            use_regex ? "false" : "true", use_regex ? " needs a Split before it" : " behind a Split is not supported");
  };
  const Section section(value, "pre_tokenizer");
  if (section.text("type") != "Sequence") {
    byte_level(section, true);
    return std::nullopt;
  }
  const json& steps = section.at("pretokenizers");
  require(steps.is_array() && steps.size() == 2,
          "pre_tokenizer: a Sequence other than Split, ByteLevel is not supported");
  const Section split(steps[0], "pre_tokenizer, step 0");
  require(split.text("type") == "Split", "pre_tokenizer: ", in_quotes(split.text("type")),
          " in a Sequence is not supported");
  require(split.text("behavior") == "Isolated", "pre_tokenizer: Split with behavior ",
          in_quotes(split.text("behavior")), " is not supported");
  split.refuse_flag("invert");
  const Section pattern(split.at("pattern"), "pre_tokenizer: the pattern of Split");
  require(!pattern.absent("Regex"), "pre_tokenizer: Split by anything but a Regex is not supported");
  byte_level(Section(steps[1], "pre_tokenizer, step 1"), false);
  return pattern.text("Regex");
}

void check_post_processor(const json& value, bool inside = false) {
  if (value.is_null()) return;
  const Section section(value, "post_processor");
  const std::string type = section.text("type");
  if (type == "Sequence" && !inside) {
    require(section.at("processors").is_array(), "post_processor: processors is no list");
    for (const auto& step : section.at("processors")) check_post_processor(step, true);
  } else {
    require(type == "ByteLevel" || type == "TemplateProcessing", "post_processor: ", in_quotes(type),
            " is not supported");
  }
}

TokenizerData read(const json& document) {
  TokenizerData data;
  const Section file(document, "the file");
  for (const char* key : {"normalizer", "truncation", "padding"})
    require(file.absent(key), key, " is not supported, only null");

  const Section model(file.at("model"), "model");
  const std::string type = model.absent("type") ? "BPE" : model.text("type");
  require(type == "BPE", "model: ", in_quotes(type), " is not supported, only BPE");
  for (const char* key : {"dropout", "continuing_subword_prefix", "end_of_word_suffix"}) model.refuse_value(key);
  model.refuse_flag("byte_fallback");
  if (!model.absent("unk_token")) data.unk_token = model.text("unk_token");
  data.ignore_merges = model.flag("ignore_merges", false);

  data.split = read_pre_tokenizer(file.at("pre_tokenizer"));
  const Section decoder(file.at("decoder"), "decoder");
  require(decoder.text("type") == "ByteLevel", "decoder: ", in_quotes(decoder.text("type")), " is not supported");
  if (!file.absent("post_processor")) {
    check_post_processor(file.at("post_processor"));
    data.post_processor = file.at("post_processor").dump();
  }

  read_tokens(model.at("vocab"), document.value("added_tokens", json()), data);
  data.merges = read_merges(model.at("merges"), data);
  return data;
}

const char* word(bool value) { return value ? "true" : "false"; }

// Appends the items to `out`, a comma between each two.
template <typename Items, typename Write>
void list(std::string& out, const Items& items, Write write) {
  const char* comma = "";
  for (const auto& item : items) {
    out += comma;
    write(item);
    comma = ",";
  }
}

std::string pre_tokenizer(const std::optional<std::string>& split) {
  const std::string byte_level =
      cat(R"({"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":)", word(!split), "}");
  if (!split) return byte_level;
  return cat(R"({"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":)", in_quotes(*split),
             R"(},"behavior":"Isolated","invert":false},)", byte_level, "]}");
}

}  // namespace

TokenizerData parse_tokenizer_json(std::string_view text) {
  try {
    return read(parse_shallow_json(text));
  } catch (const json::exception& e) {
    fail(cat("not the JSON of a tokenizer: ", mend_utf8(std::string_view(e.what()).substr(0, longest_reason))));
  }
}

std::string write_tokenizer_json(const TokenizerData& data) {
  std::string out = R"({"version":"1.0","truncation":null,"padding":null,"added_tokens":[)";
  list(out, data.added, [&](const AddedToken& token) {
    out += cat(R"({"id":)", token.id, R"(,"content":)", in_quotes(data.tokens[token.id]),
               R"(,"single_word":false,"lstrip":false,"rstrip":false,"normalized":)", word(token.normalized),
               R"(,"special":)", word(token.special), "}");
  });
  out += cat(R"(],"normalizer":null,"pre_tokenizer":)", pre_tokenizer(data.split), R"(,"post_processor":)",
             data.post_processor,
             R"(,"decoder":{"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true,"use_regex":true})",
             R"(,"model":{"type":"BPE","dropout":null,"unk_token":)",
             data.unk_token ? cat(in_quotes(*data.unk_token)) : "null",
             R"(,"continuing_subword_prefix":null,"end_of_word_suffix":null,"fuse_unk":false,"byte_fallback":false)",
             R"(,"ignore_merges":)", word(data.ignore_merges), R"(,"vocab":{)");
  std::vector<std::size_t> vocab;
  for (std::size_t id = 0; id < data.tokens.size(); ++id)
    if (data.in_vocab[id]) vocab.push_back(id);
  list(out, vocab, [&](std::size_t id) { out += cat(in_quotes(data.tokens[id]), ":", id); });
  out += R"(},"merges":[)";
  list(out, data.merges, [&](const Merge& merge) {
    out += cat("[", in_quotes(data.tokens[merge.left]), ",", in_quotes(data.tokens[merge.right]), "]");
  });
  return out + "]}}";
}

}  // namespace course
