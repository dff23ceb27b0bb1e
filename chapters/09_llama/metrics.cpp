#include "chapters/09_llama/metrics.hpp"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "common/check.hpp"

namespace course {

namespace fs = std::filesystem;

Metrics::Metrics(const std::string& path, bool on, bool append) : path_(on ? path : "") {
  if (path_.empty()) return;
  std::ifstream there;
  if (std::error_code error; fs::is_regular_file(path_, error)) there.open(path_);
  const int first = there.is_open() ? there.peek() : EOF;
  require(first == '{' || first == EOF, "--metrics ", path_,
          ": there is a file of that name, and it holds no metrics; name another");
  out_.open(path_, append ? std::ios::app : std::ios::trunc);
  require(out_, "--metrics ", path_, ": cannot be written: ", std::strerror(errno));
  fresh_ = out_.tellp() == 0;
  if (!fresh_ && there.seekg(-1, std::ios::end) && there.get() != '\n') out_ << "\n";  // a killed run's last line
}

void Metrics::write(const std::string& kind, const nlohmann::json& fields) {
  if (path_.empty()) return;
  nlohmann::ordered_json line = {{"kind", kind}};
  line.update(fields);
  out_ << line.dump() << std::endl;
  require(out_, "--metrics ", path_, ": cannot be written: ", std::strerror(errno));
}

}  // namespace course
