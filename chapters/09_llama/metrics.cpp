#include "chapters/09_llama/metrics.hpp"

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "common/check.hpp"

namespace course {

Metrics::Metrics(const std::string& path, bool on, bool append) : path_(on ? path : "") {
  if (path_.empty()) return;
  out_.open(path_, append ? std::ios::app : std::ios::trunc);
  require(out_, "--metrics ", path_, ": cannot be written: ", std::strerror(errno));
  fresh_ = out_.tellp() == 0;
}

void Metrics::write(const std::string& kind, const nlohmann::json& fields) {
  if (path_.empty()) return;
  nlohmann::ordered_json line = {{"kind", kind}};
  line.update(fields);
  out_ << line.dump() << std::endl;
  require(out_, "--metrics ", path_, ": cannot be written: ", std::strerror(errno));
}

}  // namespace course
