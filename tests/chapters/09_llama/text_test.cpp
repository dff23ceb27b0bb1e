// Reading text: what is dropped, what is refused.
#include "chapters/09_llama/text.hpp"

#include "tests/chapters/09_llama/llamas.hpp"
#include "tests/support/catch.hpp"

using namespace course;
using namespace course::test;
using Texts = std::vector<std::string>;

namespace {

std::string refusal(const std::string& path) {
  try {
    read_documents({path});
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a file is one document, without byte-order mark, with \\n at its line ends") {
  const TestFolder folder;
  const auto text = folder.file("a.txt", "\xEF\xBB\xBFone\r\ntwo\rthree\n\r\n\xC3\xA9 \xF0\x9F\xA6\x99");
  const auto mark_later = folder.file("b.txt", "x\xEF\xBB\xBF");
  CHECK(read_documents({text, mark_later}) == Texts{"one\ntwo\nthree\n\n\xC3\xA9 \xF0\x9F\xA6\x99", "x\xEF\xBB\xBF"});
}

TEST_CASE("JSON lines: a document a line") {
  const TestFolder folder;
  const auto path = folder.file("fine.jsonl",
                                "\xEF\xBB\xBF{\"text\": \"a\\r\\nb\", \"id\": 3}\r\n\n  \n"
                                "{\"id\": 4, \"text\": \"\\u00e9\"}");
  CHECK(read_documents({path}) == Texts{"a\nb", "\xC3\xA9"});
}

TEST_CASE("what is no text is refused in one line with its path") {
  const TestFolder folder;
  const std::string good = "{\"text\": \"x\"}\n";
  const std::pair<std::string, std::string> cases[] = {
      {(folder.path / "none.txt").string(), "no such file"},
      {folder.path.string(), "is a folder"},
      {folder.file("empty.txt", ""), "is empty"},
      {folder.file("mark.txt", "\xEF\xBB\xBF"), "is empty"},
      {folder.file("zero.txt", std::string("a\0b", 3)), "is binary"},
      {folder.file("latin.txt", "caf\xE9 au lait"), "is not UTF-8"},
      {folder.file("cut.txt", "llama \xF0\x9F\xA6"), "is not UTF-8"},
      {folder.file("words.jsonl", good + "plain words\n"), ":2: "},
      {folder.file("other.jsonl", good + good + "{\"content\": \"x\"}\n"), ":3: "},
      {folder.file("number.jsonl", "{\"text\": 5}\n"), ":1: "},
      {folder.file("list.json", "[{\"text\": \"x\"}]\n"), ":1: "},
  };
  for (const auto& [path, words] : cases) {
    const std::string said = refusal(path);
    INFO(path << ": " << said);
    CHECK(said.starts_with(path));
    CHECK(said.find(words) != std::string::npos);
    CHECK(said.find('\n') == std::string::npos);
  }
  CHECK_THROWS_AS(read_documents({folder.file("blank.jsonl", "\n \n")}), Error);
}

TEST_CASE("UTF-8: every boundary") {
  for (const char* good : {"", "a", "\x7F", "\xC2\x80", "\xDF\xBF", "\xE0\xA0\x80", "\xED\x9F\xBF", "\xEE\x80\x80",
                           "\xEF\xBF\xBF", "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF"})
    CHECK(is_utf8(good));
  for (const char* bad : {"\x80", "\xC1\xBF", "\xC2", "\xC2 ", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xE1\x80",
                          "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF"}) {
    INFO(static_cast<int>(static_cast<unsigned char>(bad[0])));
    CHECK_FALSE(is_utf8(bad));
  }
}

TEST_CASE("paragraphs are what blank lines part") {
  CHECK(paragraphs("\n\na\nb\n \t\nc\n\n\n") == Texts{"a\nb\n", "c\n"});
  CHECK(paragraphs("a").size() == 1);
  CHECK(paragraphs("\n \n").empty());
}

TEST_CASE("without files there is a text all the same") {
  const TextSource source = default_text();
  CHECK_FALSE(source.paths.empty());
  CHECK(source.what.starts_with("text: "));
  for (const auto& path : source.paths) CHECK(std::filesystem::is_regular_file(path));
}
