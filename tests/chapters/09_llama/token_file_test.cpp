// Token files: ids of any vocabulary come back, and what does not fit is refused with its place. Case B30.
#include "chapters/09_llama/token_file.hpp"

#include "chapters/09_llama/training_data.hpp"
#include "tests/chapters/09_llama/llamas.hpp"
#include "tests/chapters/09_llama/tokenizer_samples.hpp"
#include "tests/support/cases.hpp"
#include "tests/support/catch.hpp"

using namespace course;
using namespace course::test;
using Catch::Matchers::Contains;

namespace {

std::string bytes_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string number(uint64_t value, size_t bytes = 8) { return {reinterpret_cast<const char*>(&value), bytes}; }

std::string header(uint64_t width, uint64_t vocabulary, uint64_t count) {
  return "TOKENS01" + number(width) + number(vocabulary) + number(count);
}

}  // namespace

TEST_CASE("B30: ids above 65535 come back, and the width stands in the file") {
  const auto B30 = the_case("B30");
  const int64_t V = B30["input"]["V"];
  const auto ids = B30["input"]["ids"].get<Ids>();
  const TestFolder folder;
  const std::string path = (folder.path / "ids.tokens").string();
  write_token_file(path, ids, V);
  CHECK(is_token_file(path));
  const TokenFile read = read_token_file(path);
  CHECK(read.ids == B30["right"]["ids"].get<Ids>());
  CHECK(read.vocabulary == V);
  CHECK(bytes_of(path).size() == 32 + 4 * ids.size());

  for (const int64_t vocabulary : {300, 65536, 65537}) {  // 16 bits hold 0..65535
    const Ids some = {0, 299, 7, static_cast<int32_t>(vocabulary - 1)};
    write_token_file(path, some, vocabulary);
    CHECK(read_token_file(path).ids == some);
    CHECK(bytes_of(path).size() == 32 + (vocabulary <= 65536 ? 2 : 4) * some.size());
  }
  write_token_file(path, Ids{}, 300);
  CHECK(read_token_file(path).ids.empty());

  const Ids outside = {5, 300, 2}, negative = {5, 2, -1};
  CHECK_THROWS_WITH(write_token_file(path, outside, 300), Contains("id 300 at place 1") && Contains("300"));
  CHECK_THROWS_WITH(write_token_file(path, negative, 300), Contains("id -1 at place 2"));
  CHECK_THROWS_WITH(write_token_file((folder.path / "none" / "x").string(), ids, V), Contains("cannot be written"));
  CHECK(read_token_file(path).ids.empty());  // the old one stays
}

TEST_CASE("B30: a file of another width, cut, or with an id that the vocabulary has not, is refused") {
  const auto V = the_case("B30")["input"]["V"].get<uint64_t>();
  const TestFolder folder;
  const auto refused = [&](const std::string& bytes) {
    const std::string path = folder.file("bad.tokens", bytes);
    try {
      read_token_file(path);
    } catch (const Error& error) {
      const std::string said = error.what();
      CHECK(said.starts_with(path + ": "));
      CHECK(said.find('\n') == std::string::npos);
      return said;
    }
    return std::string();
  };
  const std::string narrow = number(7, 2) + number(9, 2) + number(8, 2), wide = number(7, 4) + number(9, 4);
  CHECK(refused(header(2, 300, 3) + narrow) == "");
  CHECK(refused(header(4, 300, 2) + wide) == "");
  CHECK_THAT(refused(header(4, V, 3) + narrow), Contains("3 ids of 4 bytes") && Contains("6 bytes are there"));
  CHECK_THAT(refused(header(2, 300, 2) + wide), Contains("2 ids of 2 bytes") && Contains("8 bytes are there"));
  CHECK_THAT(refused(header(2, V, 3) + narrow), Contains("do not hold a vocabulary of 128256"));
  CHECK_THAT(refused(header(3, 300, 2) + narrow), Contains("3 bytes an id"));
  CHECK_THAT(refused(header(2, 9, 3) + narrow), Contains("id 9 at place 1") && Contains("vocabulary of 9"));
  CHECK_THAT(refused(header(4, 300, 1) + number(0x80000007, 4)), Contains("id -2147483641 at place 0"));
  CHECK_THAT(refused(header(2, 300, 3) + narrow.substr(1)), Contains("5 bytes are there"));
  CHECK_THAT(refused(header(2, 300, 3) + narrow + "x"), Contains("7 bytes are there"));
  CHECK_THAT(refused(header(2, 300, uint64_t{1} << 63) + narrow), Contains("6 bytes are there"));  // times 2 is 0
  CHECK_THAT(refused(header(2, 0, 3) + narrow), Contains("vocabulary of 0"));
  CHECK_THAT(refused(header(4, uint64_t{1} << 40, 2) + wide), Contains("vocabulary of 1099511627776"));
  CHECK_THAT(refused(header(2, 300, 3).substr(0, 31)), Contains("is no token file"));
  CHECK_THAT(refused("the river"), Contains("is no token file"));
  CHECK_THAT(refused(""), Contains("is no token file"));
  CHECK(!is_token_file(folder.file("text", "TOKENS0")));
}

TEST_CASE("a token file is read in place of the text that it was made from, and its tokenizer must be given") {
  const TestFolder folder;
  const Tokenizer tokenizer = small_tokenizer();
  const std::string words = folder.file("words.txt", "the river can't say it's the llama's river; the stones aren't"),
                    json = (folder.path / "tokenizer.json").string(), file = (folder.path / "ids").string();
  tokenizer.save(json);
  TrainingOptions options;
  Cli cli("test", "flags");
  options.add_to(cli, {});
  options.seq = 3;
  options.settle(cli, 1);
  options.text = {words};
  options.tokenizer = json;
  const auto alone = world().split(world().rank(), 0, "alone");
  std::ostringstream out;
  const TrainingData expected = prepare_data(options, *alone, out);

  Ids ids = tokenizer.encode(bytes_of(words));
  ids.insert(ids.begin(), *tokenizer.bos());
  ids.push_back(*tokenizer.eos());
  write_token_file(file, ids, tokenizer.size());
  options.text = {file};
  const TrainingData data = prepare_data(options, *alone, out);
  CHECK(data.train.ids() == expected.train.ids());
  CHECK(data.held.ids() == expected.held.ids());

  const auto refuses = [&](const std::string& says) {
    CHECK_THROWS_WITH(prepare_data(options, *alone, out), Contains(file) && Contains(says));
  };
  options.tokenizer = "";
  refuses("give the tokenizer");
  options.tokenizer = json;
  options.samples = "document";
  refuses("no --samples document");
  options.samples = "stream";
  write_token_file(file, ids, tokenizer.size() + 1);
  refuses("its vocabulary is 331");
}
