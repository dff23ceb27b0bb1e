// The text to train on, as documents.
#pragma once

#include <string>
#include <vector>

namespace course {

// Reads files. A name that ends in .jsonl or .json has one JSON object a line, whose field "text" is a document (FineWeb's
// samples as they are); any other file is UTF-8 text and one document. A byte-order mark is dropped, line ends become \n.
// Throws Error, one line with the path, for a file that is missing, a folder, empty, not UTF-8 or holds a zero byte, and for a
// line without such a field.
std::vector<std::string> read_documents(const std::vector<std::string>& paths);

// A document as smaller ones: its paragraphs, which blank lines part. For samples of one document each.
std::vector<std::string> paragraphs(const std::string& document);

// Where the text comes from when no file is named: data/shakespeare/*.txt if set up, else the chapters' own texts
// (chapters/*/README.md), looked for from the current folder up, then beside the program.
struct TextSource {
  std::vector<std::string> paths;
  std::string what;  // a line that says which
};
TextSource default_text();

bool is_utf8(const std::string& text);

}  // namespace course
