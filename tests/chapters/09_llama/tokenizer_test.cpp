// Text to ids and back: the reference library's ids, and case B31 with its kind.
#include "chapters/09_llama/tokenizer.hpp"

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <random>

#include "chapters/09_llama/tokenizer_bytes.hpp"
#include "common/check.hpp"
#include "tests/chapters/09_llama/tokenizer_samples.hpp"
#include "tests/support/cases.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/golden.hpp"

using namespace course;
using namespace course::test;
using namespace std::string_literals;
using nlohmann::json;

namespace {

std::string file_text(const std::string& name) {
  std::ifstream file(golden_dir() + "/tokenizer/" + name, std::ios::binary);
  require(file, "no golden file ", name);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::size_t begin = 0;
  for (std::size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1)
    lines.push_back(text.substr(begin, end - begin));
  lines.push_back(text.substr(begin));
  return lines;
}

json merges_of(const Tokenizer& tokenizer) {
  json merges = json::array();
  for (const Merge& m : tokenizer.data().merges) merges.push_back({tokenizer.token(m.left), tokenizer.token(m.right)});
  return merges;
}

const std::string llama = "\U0001f999";  // F0 9F A6 99
const std::string unknown = "\uFFFD";

}  // namespace

TEST_CASE("golden: texts and their ids", "[golden]") {
  const Tokenizer tokenizer = Tokenizer::load(golden_dir() + "/tokenizer/tokenizer.json");
  const json cases = json::parse(file_text("cases.json"));
  REQUIRE(!cases.at("encode").empty());
  for (const json& c : cases.at("encode")) {
    const std::string text = c.at("text");
    const Ids ids = c.at("ids");
    INFO("text " << c.at("text"));
    CHECK(tokenizer.encode(text) == ids);
    CHECK(tokenizer.decode(ids) == c.at("decoded").get<std::string>());
    CHECK(tokenizer.decode(ids, false) == text);
    CHECK(tokenizer.decode_bytes(ids, false) == text);
    CHECK(streamed(tokenizer, ids) == c.at("decoded").get<std::string>());
  }
}

TEST_CASE("golden: ids that cut a character", "[golden]") {
  const Tokenizer tokenizer = Tokenizer::load(golden_dir() + "/tokenizer/tokenizer.json");
  const json cases = json::parse(file_text("cases.json"));
  REQUIRE(!cases.at("decode").empty());
  for (const json& c : cases.at("decode")) {
    INFO("ids " << c.at("ids"));
    CHECK(tokenizer.decode(c.at("ids").get<Ids>()) == c.at("decoded").get<std::string>());
    CHECK(streamed(tokenizer, c.at("ids")) == c.at("decoded").get<std::string>());
  }
}

TEST_CASE("golden: the same merges are learned from the same text", "[golden]") {
  const json expected = json::parse(file_text("merges.json"));
  const int size = expected.at("vocab_size");
  const std::vector<std::string> specials = expected.at("special_tokens");
  const std::string text = file_text("training.txt");

  const Tokenizer whole = train_bpe(std::vector<std::string>{text}, size, specials);
  CHECK(merges_of(whole) == expected.at("whole_text"));
  CHECK(merges_of(train_bpe(lines_of(text), size, specials)) == expected.at("by_line"));

  const std::string file = file_text("tokenizer.json");
  CHECK(whole == Tokenizer(parse_tokenizer_json(file)));
  CHECK(json::parse(write_tokenizer_json(whole.data())) == json::parse(file));
}

TEST_CASE("B31 (a): whole words before merges") {
  const json B31 = the_case("B31");
  const std::string text = B31["input"]["text"];
  for (const auto& [token, id] : B31["input"]["vocab"].items()) CHECK(abc_tokenizer(true).token(id) == token);
  CHECK(abc_tokenizer(true).encode(text) == B31["right"]["ids"].get<Ids>());
  CHECK(abc_tokenizer(false).encode(text) == B31["faulty"]["merges_only"].get<Ids>());  // without ignore_merges right
  CHECK(abc_tokenizer(true).encode("abca") == Ids{3, 2, 0});
  CHECK_THROWS_WITH(abc_tokenizer(true).encode("abx"), Catch::Contains("no token for the byte 120"));
}

TEST_CASE("B31 (b): a stream shows nothing until a character is whole") {
  const Tokenizer tokenizer = small_tokenizer();
  Ids bytes;
  for (char byte : llama) bytes.push_back(*tokenizer.id(spell(std::string(1, byte))));
  StreamDecoder stream(tokenizer);
  for (std::size_t i = 0; i < 3; ++i) CHECK(stream.push(bytes[i]) == "");
  CHECK(stream.push(bytes[3]) == llama);
  CHECK(stream.finish() == "");

  for (std::size_t cut = 1; cut < 4; ++cut) {
    const Ids front(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(cut));
    CHECK(tokenizer.decode(front) == unknown);
    CHECK(streamed(tokenizer, front) == unknown);
    for (std::int32_t id : front) CHECK(stream.push(id) == "");
    CHECK(stream.push(*tokenizer.id("a")) == unknown + "a");
  }
  CHECK(stream.push(bytes[0]) == "");
  CHECK(stream.push(*tokenizer.eos()) == "");  // a special token in the middle, left out, does not break the character
  CHECK(stream.push(bytes[1]) == "");
  CHECK(stream.push(bytes[2]) == "");
  CHECK(stream.push(bytes[3]) == llama);
}

// Ids from the library `tokenizers` 0.23 for these two tokenizers.
TEST_CASE("B31 (c): words are cut as the library cuts them") {
  struct Case {
    std::string text;
    Ids gpt2, llama3;
  };
  const std::vector<Case> cases = {
      {"1234567", {272, 287, 292}, {272, 21, 22, 23, 24, 25}},
      {"  a\n\n  b", {223, 223, 67, 289, 223, 68}, {223, 223, 67, 280, 223, 223, 68}},
      {"can't CAN'T", {264, 80, 263, 223, 37, 35, 48, 9, 54}, {264, 80, 263, 223, 37, 35, 48, 9, 54}},
      {"e\u0301", {71, 139, 226}, {71, 139, 226}},
      {"a\r\nb", {67, 204, 201, 68}, {67, 310, 68}},
      {"a\0b"s, {67, 191, 68}, {67, 191, 68}},
      {" Vi\u1ec7t", {290}, {290}},
      {"The \u03d5\u2200 " + llama, {293, 318, 309, 225, 291}, {293, 318, 309, 225, 291}},
      {"", {}, {}},
      {"the[EOT] river", {260, 1, 270}, {260, 1, 270}},
      {"[BOT", {61, 36, 49, 54}, {61, 36, 49, 54}},
      {"the\u180eriver", {260, 160, 257, 239, 266, 84}, {260, 160, 257, 239, 266, 84}},  // no White_Space
      {"a\u1c89b", {67, 160, 113, 234, 68}, {67, 160, 113, 234, 68}},                    // a letter since Unicode 16
      {"'\u017f 'S", {9, 132, 126, 223, 9, 53}, {9, 132, 126, 223, 9, 53}},
      {"   12 345 \t\n x",
       {223, 223, 283, 313, 223, 200, 201, 223, 90},
       {223, 223, 223, 272, 223, 287, 223, 200, 201, 223, 90}},
  };
  const Tokenizer gpt2 = small_tokenizer(), llama3 = small_tokenizer(llama3_pattern);
  for (const Case& c : cases) {
    INFO("text " << json(c.text));
    CHECK(gpt2.encode(c.text) == c.gpt2);
    CHECK(llama3.encode(c.text) == c.llama3);
    CHECK(gpt2.decode(c.gpt2, false) == c.text);
  }
}

TEST_CASE("B31 (c): long runs take about linear time") {
  const std::size_t n = 1 << 20;
  std::string blanks(n, ' '), word(n, 'a'), marks(n, '['), letters, words;
  std::mt19937 random(1);
  for (std::size_t i = 0; i < n; ++i) letters += "therivcan"[random() % 9];
  for (std::size_t i = 0; i < n; i += 2) words += "a ";
  for (const auto pattern : {std::string_view(), llama3_pattern}) {
    const Tokenizer tokenizer = pattern.empty() ? small_tokenizer() : small_tokenizer(pattern);
    for (const std::string& text : {blanks, word, marks, letters, words, blanks + "x", std::string(n, '\xff')}) {
      const Ids ids = tokenizer.encode(text);
      CHECK(ids.size() > n / 8);
      CHECK(tokenizer.decode_bytes(ids, false) == text);
    }
  }
}

TEST_CASE("B31 (c): bytes that are not UTF-8 stand alone") {
  const Tokenizer tokenizer = small_tokenizer();
  auto id = [&](const std::string& byte) { return *tokenizer.id(spell(byte)); };
  CHECK(tokenizer.encode("\xC3\x28") == Ids{id("\xC3"), id("(")});
  CHECK(tokenizer.decode(tokenizer.encode("\xC3\x28")) == unknown + "(");

  Ids around = tokenizer.encode("the");
  around.push_back(id("\xFF"));
  for (std::int32_t i : tokenizer.encode("river")) around.push_back(i);
  CHECK(tokenizer.encode("the\xFFriver") == around);

  CHECK(tokenizer.decode(tokenizer.encode("\xF0\x9F\xA6")) == unknown);  // a character without its end
  CHECK(tokenizer.decode(tokenizer.encode("\xED\xA0\x80")) == unknown + unknown + unknown);  // a surrogate
}

TEST_CASE("the text of an added token becomes its id") {
  TokenizerData data = small_tokenizer().data();
  auto add = [&](const std::string& text, bool special, bool normalized) {
    data.added.push_back({static_cast<std::int32_t>(data.tokens.size()), special, normalized});
    data.tokens.push_back(text);
    data.in_vocab.push_back(false);
  };
  add("<|end|>", true, false);         // 330
  add("<|end|>er", false, false);      // 331
  add("[EO", false, true);             // 332: after those that are not normalized
  add("\u00e9t\u00e9!", true, false);  // 333: reads as its text, though each character is some byte's spelling
  const Tokenizer tokenizer(data);

  CHECK(tokenizer.encode("<|end|><|end|>er<|end|>e") == Ids{330, 331, 330, 71});
  CHECK(tokenizer.encode("[EOT][EO") == Ids{1, 332});
  CHECK(tokenizer.encode("[[PAD]]") == Ids{61, 2, 63});
  CHECK(tokenizer.encode("a\u00e9t\u00e9!") == Ids{67, 333});
  CHECK(tokenizer.decode(Ids{67, 333, 331}) == "a<|end|>er");
  CHECK(tokenizer.decode(Ids{67, 333, 331}, false) == "a\u00e9t\u00e9!<|end|>er");
  CHECK(tokenizer.special(333));
  CHECK(!tokenizer.special(331));
}

TEST_CASE("ids and names") {
  const Tokenizer tokenizer = small_tokenizer();
  CHECK(tokenizer.size() == 330);
  CHECK(tokenizer.bos() == 0);
  CHECK(tokenizer.eos() == 1);
  CHECK(tokenizer.pad() == 2);
  CHECK(tokenizer.id("\u0120river") == 270);
  CHECK(tokenizer.bytes(270) == " river");
  CHECK(tokenizer.token(270) == "\u0120river");
  CHECK(!tokenizer.id("nothing"));
  CHECK(!abc_tokenizer(false).bos());
  CHECK_THROWS_WITH(tokenizer.decode(Ids{330}), "token id 330 is outside the vocabulary of 330");
  CHECK_THROWS_WITH(tokenizer.decode(Ids{-1}), "token id -1 is outside the vocabulary of 330");
  CHECK_THROWS_WITH(StreamDecoder(tokenizer).push(330), Catch::Contains("outside the vocabulary"));
}

TEST_CASE("any bytes come back, and a stream ends as the whole") {
  const std::vector<Tokenizer> tokenizers = {small_tokenizer(), small_tokenizer(llama3_pattern)};
  const std::vector<std::string> pieces = {
      "the river", " ",    "\n",           "[EOT]",    "[BO", "\xE2\x82", "\xF0\x9F",
      llama,       "1234", "\xED\xA0\x80", "\xC0\x80", "'s",  "\u3000",   "\xF4\x90\x80\x80",
      "e\u0301"};
  std::mt19937 random(7);
  for (int round = 0; round < 1000; ++round) {
    std::string text;
    for (std::size_t n = random() % 12; n > 0; --n)
      text += random() % 2 ? pieces[random() % pieces.size()] : std::string(1, static_cast<char>(random() % 256));
    for (const Tokenizer& tokenizer : tokenizers) {
      const Ids ids = tokenizer.encode(text);
      INFO("text " << spell(text));
      CHECK(tokenizer.decode_bytes(ids, false) == text);
      CHECK(streamed(tokenizer, ids, false) == tokenizer.decode(ids, false));
      CHECK(streamed(tokenizer, ids) == tokenizer.decode(ids));
    }
    Ids any;
    for (std::size_t n = random() % 12; n > 0; --n) any.push_back(static_cast<std::int32_t>(random() % 330));
    CHECK(streamed(tokenizers[0], any) == tokenizers[0].decode(any));
  }
}
