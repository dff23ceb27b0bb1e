#include "tests/support/golden.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "tests/support/ranks.hpp"

namespace course::test {
namespace {

std::vector<std::string> cut_at(const std::string& text, char mark) {
  std::vector<std::string> parts;
  if (text.empty()) return parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, mark);) parts.push_back(part);
  return parts;
}

double number_of(const std::string& text, const Golden& golden, const std::string& key) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  require(!text.empty() && *end == 0, golden.path(), ": ", key, " is no number: ", text);
  return value;
}

int64_t integer_of(const std::string& text, const Golden& golden, const std::string& key) {
  char* end = nullptr;
  const int64_t value = std::strtoll(text.c_str(), &end, 10);
  require(!text.empty() && *end == 0, golden.path(), ": ", key, " is no integer: ", text);
  return value;
}

}  // namespace

std::string golden_dir() {
  const char* named = std::getenv("COURSE_GOLDEN");
  return named && *named ? named : "tests/golden";
}

std::vector<std::string> golden_files(const std::string& prefix) {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(golden_dir())) {
    const auto& path = entry.path();
    if (path.extension() == ".safetensors" && path.filename().string().starts_with(prefix))
      files.push_back(path.string());
  }
  require(!files.empty(), "no golden file ", golden_dir(), "/", prefix, "*.safetensors");
  std::sort(files.begin(), files.end());
  return files;
}

std::string Golden::name() const { return std::filesystem::path(path()).stem().string(); }

const std::string& Golden::text(const std::string& key) const {
  const auto found = file_.metadata().find(key);
  require(found != file_.metadata().end(), path(), ": no ", key, " in the metadata");
  return found->second;
}

double Golden::number(const std::string& key) const { return number_of(text(key), *this, key); }
int64_t Golden::integer(const std::string& key) const { return integer_of(text(key), *this, key); }

bool Golden::flag(const std::string& key) const {
  const std::string& value = text(key);
  require(value == "true" || value == "false", path(), ": ", key, " is neither true nor false: ", value);
  return value == "true";
}

std::vector<std::string> Golden::texts(const std::string& key) const { return cut_at(text(key), ','); }

std::vector<double> Golden::numbers(const std::string& key) const {
  std::vector<double> values;
  for (const auto& part : texts(key)) values.push_back(number_of(part, *this, key));
  return values;
}

std::vector<int64_t> Golden::integers(const std::string& key) const {
  std::vector<int64_t> values;
  for (const auto& part : texts(key)) values.push_back(integer_of(part, *this, key));
  return values;
}

std::vector<Shape> Golden::shapes(const std::string& key) const {
  std::vector<Shape> values;
  for (const auto& part : texts(key)) {
    Shape& shape = values.emplace_back();
    for (const auto& size : cut_at(part, 'x')) shape.push_back(integer_of(size, *this, key));
  }
  return values;
}

Tensor Golden::tensor(const std::string& tensor) const {
  const StoredTensor& info = file_.info(tensor);
  if (info.type == StoredType::I32) return backend().from_host(ids(tensor), info.shape);
  return backend().from_host(values(tensor), info.shape);
}

double golden_tolerance(const Golden& golden, const std::string& key) { return golden.number(key); }

}  // namespace course::test
