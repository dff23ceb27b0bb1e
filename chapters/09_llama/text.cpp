#include "chapters/09_llama/text.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "common/check.hpp"

namespace course {
namespace {

namespace fs = std::filesystem;

std::string read_text(const std::string& path) {
  require(fs::exists(path), path, ": no such file");
  require(!fs::is_directory(path), path, ": is a folder; --text takes files");
  require(!fs::is_character_file(path) && !fs::is_block_file(path), path, ": is a device; --text takes files");
  std::ifstream in(path, std::ios::binary);
  std::ostringstream all;
  all << in.rdbuf();
  require(in.good(), path, ": cannot be read");
  std::string text = all.str();
  if (text.starts_with("\xEF\xBB\xBF")) text.erase(0, 3);
  require(!text.empty(), path, ": is empty");
  require(text.find('\0') == std::string::npos, path, ": is binary (it holds a zero byte)");
  require(is_utf8(text), path, ": is not UTF-8");
  return text;
}

std::string unix_lines(std::string text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\r') {
      out += text[i];
    } else {
      out += '\n';
      if (i + 1 < text.size() && text[i + 1] == '\n') ++i;
    }
  }
  return out;
}

void read_json_lines(const std::string& path, std::vector<std::string>& documents) {
  std::istringstream lines(read_text(path));
  std::string line;
  for (int64_t number = 1; std::getline(lines, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const auto json = nlohmann::json::parse(line, nullptr, false);
    require(json.is_object() && json.contains("text") && json["text"].is_string(), path, ":", number,
            ": is no JSON object with a field \"text\"");
    documents.push_back(unix_lines(json["text"]));
  }
}

std::vector<std::string> files_in(const fs::path& folder, const std::string& ending) {
  std::vector<std::string> files;
  if (fs::is_directory(folder))
    for (const auto& entry : fs::recursive_directory_iterator(folder))
      if (entry.path().filename().string().ends_with(ending)) files.push_back(entry.path().string());
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

bool is_utf8(const std::string& text) {
  const auto* s = reinterpret_cast<const unsigned char*>(text.data());
  for (size_t i = 0, n = text.size(); i < n;) {
    const int length = s[i] < 0x80 ? 1 : s[i] >= 0xC2 && s[i] < 0xE0 ? 2 : (s[i] & 0xF0) == 0xE0 ? 3 : s[i] >= 0xF0 && s[i] < 0xF5 ? 4 : 0;
    if (length == 0 || i + length > n) return false;
    for (int k = 1; k < length; ++k)
      if ((s[i + k] & 0xC0) != 0x80) return false;
    const bool overlong = (s[i] == 0xE0 && s[i + 1] < 0xA0) || (s[i] == 0xF0 && s[i + 1] < 0x90);
    const bool outside = (s[i] == 0xED && s[i + 1] >= 0xA0) || (s[i] == 0xF4 && s[i + 1] >= 0x90);
    if (overlong || outside) return false;
    i += length;
  }
  return true;
}

std::vector<std::string> read_documents(const std::vector<std::string>& paths) {
  std::vector<std::string> documents;
  for (const auto& path : paths) {
    if (path.ends_with(".jsonl") || path.ends_with(".json"))
      read_json_lines(path, documents);
    else
      documents.push_back(unix_lines(read_text(path)));
  }
  require(!documents.empty(), paths.empty() ? "no file" : paths.front(),
          paths.size() > 1 ? cat(" and ", paths.size() - 1, " more") : "", ": no document in it");
  return documents;
}

std::vector<std::string> paragraphs(const std::string& document) {
  std::vector<std::string> parts;
  std::istringstream lines(document);
  std::string line, part;
  const auto end = [&] {
    if (!part.empty()) parts.push_back(std::exchange(part, {}));
  };
  while (std::getline(lines, line)) {
    if (line.find_first_not_of(" \t") == std::string::npos)
      end();
    else
      part += line + "\n";
  }
  end();
  return parts;
}

TextSource default_text() {
  for (fs::path at = fs::current_path(); ; at = at.parent_path()) {
    if (auto plays = files_in(at / "data" / "shakespeare", ".txt"); !plays.empty())
      return {plays, cat("text: Shakespeare's plays, ", plays.size(), " files")};
    if (auto chapters = files_in(at / "chapters", "README.md"); !chapters.empty())
      return {chapters, cat("text: the chapters' own, ", chapters.size(),
                            " files (no data/shakespeare: ./course setup fetches the plays)")};
    if (at == at.root_path()) break;
  }
  throw SharedError("no text found from this folder up: name files with --text");
}

}  // namespace course
