// tokenizer.json: what is written is read again, both forms of merges, and each fault has its own line.
#include "chapters/09_llama/tokenizer_file.hpp"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "common/check.hpp"
#include "tests/chapters/09_llama/tokenizer_samples.hpp"
#include "tests/support/catch.hpp"

using namespace course;
using namespace course::test;
using Catch::Contains;
using nlohmann::json;

namespace {

struct Folder {
  std::filesystem::path path = std::filesystem::temp_directory_path() / cat("course_tokenizer_", getpid());
  Folder() { std::filesystem::create_directories(path); }
  ~Folder() { std::filesystem::remove_all(path); }
};

json document() { return json::parse(write_tokenizer_json(small_tokenizer().data())); }

Tokenizer parsed(const json& value) { return Tokenizer(parse_tokenizer_json(value.dump())); }

// The small tokenizer's file with one thing changed: `at` is a JSON pointer.
json with(const std::string& at, const json& value) {
  json changed = document();
  changed[json::json_pointer(at)] = value;
  return changed;
}
json without(const std::string& section, const std::string& key) {
  json changed = document();
  changed[json::json_pointer(section)].erase(key);
  return changed;
}

json split_by(const json& pattern) {
  return {{"type", "Sequence"},
          {"pretokenizers",
           {{{"type", "Split"}, {"pattern", pattern}, {"behavior", "Isolated"}, {"invert", false}},
            {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", false}}}}};
}

json added(const std::string& content, int id) {
  return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", true}};
}

}  // namespace

TEST_CASE("a saved tokenizer loads equal") {
  const Folder folder;
  TokenizerData data = small_tokenizer(llama3_pattern).data();
  data.ignore_merges = true;
  data.tokens.push_back("<\"\\|\u2028 \u00e9>");
  data.in_vocab.push_back(false);
  data.added.push_back({330, false, true});
  data.post_processor = R"({"trim_offsets":false,"type":"ByteLevel"})";
  data.unk_token = "[PAD]";
  const Tokenizer rich(data);
  for (const Tokenizer& tokenizer : {small_tokenizer(), rich}) {
    const auto path = folder.path / "tokenizer.json";
    tokenizer.save(path);
    CHECK(Tokenizer::load(path) == tokenizer);
    CHECK(Tokenizer::load(path).encode("The river's 1234567 <\"\\|\u2028 \u00e9>") ==
          tokenizer.encode("The river's 1234567 <\"\\|\u2028 \u00e9>"));
    CHECK(std::distance(std::filesystem::directory_iterator(folder.path), {}) == 1);  // nothing is left aside
  }
  CHECK(!(rich == small_tokenizer()));
}

TEST_CASE("merges are read in both forms, and the last of two equal pairs counts") {
  json strings = document();
  for (json& merge : strings["model"]["merges"])
    merge = merge[0].get<std::string>() + " " + merge[1].get<std::string>();
  CHECK(parsed(strings) == small_tokenizer());

  json twice = document();
  const json first = twice["model"]["merges"][0];
  const Tokenizer once = parsed(twice);
  twice["model"]["merges"].push_back(first);
  CHECK(parsed(twice).data().merges.size() == once.data().merges.size() + 1);
  CHECK(parsed(twice).encode("ri") == once.encode("ri"));
}

TEST_CASE("keys that files leave out have their defaults") {
  json small = document();
  for (const char* key : {"version", "truncation", "padding", "normalizer", "post_processor"}) small.erase(key);
  for (const char* key : {"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk",
                          "byte_fallback", "ignore_merges"})
    small["model"].erase(key);
  CHECK(parsed(small) == small_tokenizer());
  small.erase("added_tokens");
  CHECK(parsed(small).encode("[EOT]").size() > 1);
}

TEST_CASE("a broken file is refused with its reason") {
  const auto refuses = [](const json& value, const std::string& reason) {
    INFO("expected: " << reason);
    CHECK_THROWS_WITH(parsed(value), Contains(reason));
  };
  refuses(json::array(), "the file is no object");
  refuses(without("", "model"), "the file has no model");
  refuses(without("/model", "vocab"), "model has no vocab");
  refuses(without("/model", "merges"), "model has no merges");
  refuses(without("", "pre_tokenizer"), "the file has no pre_tokenizer");
  refuses(without("", "decoder"), "the file has no decoder");
  refuses(with("/model/vocab", {1}), "vocab is no object");
  refuses(with("/model/merges", "x"), "merges is no list");
  refuses(with("/model/ignore_merges", 1), "ignore_merges is neither true nor false");

  refuses(with("/model/vocab/zz", 5), "tokens \"#\" and \"zz\" both have id 5");
  refuses(with("/model/vocab/zz", 5000), "no token has id 330, yet \"zz\" has 5000");
  refuses(with("/model/vocab/zz", -1), "the id of token \"zz\" is -1");
  refuses(with("/model/vocab/zz", 1LL << 40), "the id of token \"zz\" is 1099511627776");
  refuses(with("/model/vocab/zz", 1.5), "the id of token \"zz\" is 1.5");
  refuses(with("/model/vocab/zz", "7"), "the id of token \"zz\" is string");

  refuses(with("/model/merges/0", {"h", "zz"}), "merge 0 of \"h\" and \"zz\": vocab has no \"zz\"");
  refuses(with("/model/merges/0", {"Q", "Z"}), "vocab has no \"QZ\"");
  refuses(with("/model/merges/0", "abc"), "neither \"a b\" nor");
  refuses(with("/model/merges/0", "a b c"), "neither \"a b\" nor");
  refuses(with("/model/merges/0", {"a", "b", "c"}), "neither \"a b\" nor");
  refuses(with("/model/merges/0", 7), "neither \"a b\" nor");

  refuses(with("/added_tokens/0/id", 9), "added token \"[BOT]\" has id 9, in vocab it has 0");
  refuses(with("/added_tokens/3", added("", 330)), "an added token has no text");
  refuses(with("/added_tokens/3", added("<x>", 331)), "no token has id 330");
  refuses(with("/added_tokens/3", added("\u00e9", *small_tokenizer().id("\u00e9"))),
          "is spelled like a token of other bytes");
  refuses(without("/added_tokens/0", "id"), "added token \"[BOT]\" has no id");
}

TEST_CASE("what is not supported is refused by name") {
  const auto refuses = [](const json& value, const std::string& reason) {
    INFO("expected: " << reason);
    CHECK_THROWS_WITH(parsed(value), Contains(reason) && Contains("not supported"));
  };
  refuses(with("/model/type", "WordPiece"), "model: \"WordPiece\"");
  refuses(with("/model/dropout", 0.1), "model: dropout");
  refuses(with("/model/byte_fallback", true), "model: byte_fallback");
  refuses(with("/model/continuing_subword_prefix", "##"), "model: continuing_subword_prefix");
  refuses(with("/model/end_of_word_suffix", "</w>"), "model: end_of_word_suffix");
  refuses(with("/normalizer", {{"type", "NFC"}}), "normalizer");
  refuses(with("/truncation", {{"max_length", 3}}), "truncation");
  refuses(with("/padding", {{"pad_id", 3}}), "padding");
  refuses(with("/pre_tokenizer/add_prefix_space", true), "add_prefix_space");
  refuses(with("/pre_tokenizer/type", "Metaspace"), "\"Metaspace\"");
  refuses(with("/decoder/type", "Metaspace"), "decoder: \"Metaspace\"");
  refuses(with("/post_processor", {{"type", "RobertaProcessing"}}), "post_processor: \"RobertaProcessing\"");
  refuses(with("/added_tokens/0/lstrip", true), "added token \"[BOT]\": lstrip");
  refuses(with("/pre_tokenizer", split_by({{"String", " "}})), "Split by anything but a Regex");
  json removed = with("/pre_tokenizer", split_by({{"Regex", " "}}));
  removed["/pre_tokenizer/pretokenizers/0/behavior"_json_pointer] = "Removed";
  refuses(removed, "behavior \"Removed\"");
  CHECK_THROWS_WITH(parsed(with("/pre_tokenizer/use_regex", false)), Contains("needs a Split before it"));
}

TEST_CASE("patterns that two libraries read differently are refused, the others mean the same") {
  const auto refuses = [](const std::string& pattern, const std::string& reason) {
    INFO("pattern " << pattern);
    CHECK_THROWS_WITH(parsed(with("/pre_tokenizer", split_by({{"Regex", pattern}}))), Contains(reason));
  };
  for (const char* pattern : {R"(\w+)", R"(\bx)", R"(\h)", R"(\p{Han}+)", R"(\p{L)", R"(\pL)", "^a", "a$", "(?s).",
                              "(*FAIL)", "a{,2}b", "a{2}+", "[[:alpha:]]", "[a&&b]", R"([\P{L}])", "[]a]", "x\\"})
    refuses(pattern, "not supported");
  for (const char* pattern : {"(", "[a", "a**", "+"}) refuses(pattern, "pattern \"");
  for (const char* pattern : {"a*", "(?=a)", "a|"}) refuses(pattern, "can match nothing");

  const auto words = [](const std::string& pattern, const std::string& text) {
    std::vector<std::string> found;
    Splitter(pattern).each(text, [&](std::string_view word) { found.emplace_back(word); });
    return found;
  };
  using Words = std::vector<std::string>;
  CHECK(words(R"(\s)", "a\u180eb\u2003c") == Words{"a\u180eb", "\u2003", "c"});
  CHECK(words(R"([^\S\n]+)", "a \n\u3000b") == Words{"a", " ", "\n", "\u3000", "b"});
  CHECK(words(R"([\S\n]+)", "a \u180e\nb") == Words{"a", " ", "\u180e\nb"});
  CHECK(words(R"(\p{L}+)", "a\u1c89\U00031350\u0301") == Words{"a\u1c89\U00031350", "\u0301"});
  CHECK(words(R"(\P{L}+)", "a1\u1c89") == Words{"a", "1", "\u1c89"});
  CHECK(words(R"([^\p{N}]+)", "a\u00bd\U00010d40b") == Words{"a", "\u00bd\U00010d40", "b"});
  CHECK(words(R"(\p{Lu}\d)", "A1\u0411\u0661") == Words{"A1", "\u0411\u0661"});
  CHECK_THROWS_WITH(words("(a+)+b", std::string(100, 'a') + "cb"), Contains("fails on this text"));
}

TEST_CASE("text that is no JSON, or nested without end, is refused") {
  const auto refuses = [](const std::string& text, const std::string& reason) {
    CHECK_THROWS_WITH(parse_tokenizer_json(text), Contains(reason));
  };
  const std::string whole = document().dump();
  refuses("", "not the JSON of a tokenizer");
  refuses(whole.substr(0, whole.size() / 2), "not the JSON of a tokenizer");
  refuses("{\"model\": \"" + std::string(1000000, 'x'), "not the JSON of a tokenizer");
  refuses(std::string("{\"model\":\"\xFF\"}"), "not the JSON of a tokenizer");
  const std::size_t deep = 1000000;
  refuses(std::string(deep, '['), "nested deeper than 64");
  refuses(std::string(deep, '[') + std::string(deep, ']'), "nested deeper than 64");
  std::string inside = whole;
  inside.insert(1, "\"x\":" + std::string(deep, '[') + std::string(deep, ']') + ",");
  refuses(inside, "nested deeper than 64");
  try {
    parse_tokenizer_json("{\"model\": \"" + std::string(1000000, 'x'));
  } catch (const Error& e) {
    CHECK(std::string(e.what()).size() < 400);
  }
}

TEST_CASE("messages name the file") {
  const Folder folder;
  const std::string broken = (folder.path / "broken.json").string();
  std::ofstream(broken) << "{}";
  CHECK_THROWS_WITH(Tokenizer::load(broken), broken + ": the file has no model");
  CHECK_THROWS_WITH(Tokenizer::load(folder.path / "none.json"), Contains("none.json: cannot be opened"));
  CHECK_THROWS_WITH(Tokenizer::load(folder.path), folder.path.string() + ": is a folder");
  CHECK_THROWS_WITH(small_tokenizer().save(folder.path / "no" / "x.json"), Contains("x.json: cannot be written"));
  CHECK_THROWS_WITH(small_tokenizer().save(folder.path), Contains("cannot be written"));
  for (const auto& entry : std::filesystem::directory_iterator(folder.path.parent_path()))
    CHECK(!entry.path().string().starts_with(folder.path.string() + "."));
}
