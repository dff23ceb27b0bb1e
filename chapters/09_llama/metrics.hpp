// What a run did, as JSON lines: {"kind": "config", ...} first, a "step" line a step, "validation", "summary" last.
#pragma once

#include <fstream>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace course {

class Metrics {
 public:
  // An empty path, or `on` false (ranks other than 0): every call does nothing. `append` carries on a resumed run's file.
  // Throws Error when the file cannot be opened, or holds something that is no metrics.
  Metrics(const std::string& path, bool on, bool append = false);
  bool fresh() const { return fresh_; }  // nothing was in the file: the first line is still to be written
  void write(const std::string& kind, const nlohmann::json& fields);  // flushed line by line

 private:
  std::ofstream out_;
  std::string path_;
  bool fresh_ = true;
};

}  // namespace course
