// Golden values: what PyTorch computed, one safetensors file a case. tests/golden/README.md says what is in each kind.
//
//   for (const auto& path : golden_files("linear__")) {
//     const Golden golden(path);
//     Linear linear(backend(), golden.integer("in_features"), golden.integer("out_features"), golden.flag("bias"));
//     ...
//     CHECK(differs(y, golden.tensor("out.y"), golden_tolerance(golden)) == "");
//   }
//
// A test is driven by the file's own metadata, so that a file dropped into the folder is tested without a change here.
#pragma once

#include <string>
#include <vector>

#include "common/support/safetensors.hpp"
#include "common/tensor.hpp"

namespace course::test {

// The folder: what COURSE_GOLDEN names, else tests/golden (tests run in the root of the repository).
std::string golden_dir();
// The safetensors files whose name begins with `prefix` ("linear__"), sorted. Throws where there is none: a test that
// walks over nothing would pass.
std::vector<std::string> golden_files(const std::string& prefix);

// An open file. Every getter throws Error that names the file when the key or tensor is not there or reads as another
// type.
class Golden {
 public:
  explicit Golden(const std::string& path) : file_(path) {}
  std::string name() const;  // "linear__bias"
  const std::string& path() const { return file_.path(); }

  // Metadata. A list is cut at commas; "" is the empty list.
  bool says(const std::string& key) const { return file_.metadata().contains(key); }
  const std::string& text(const std::string& key) const;
  double number(const std::string& key) const;  // "nan" and "inf" too
  int64_t integer(const std::string& key) const;
  bool flag(const std::string& key) const;  // true, false
  std::vector<std::string> texts(const std::string& key) const;
  std::vector<double> numbers(const std::string& key) const;
  std::vector<int64_t> integers(const std::string& key) const;
  std::vector<Shape> shapes(const std::string& key) const;  // "5x7,11" is [5,7] and [11]

  // Tensors: floats, or i32 for ids, positions and masks.
  bool has(const std::string& tensor) const { return file_.has(tensor); }
  std::vector<std::string> names() const { return file_.names(); }
  const Shape& shape(const std::string& tensor) const { return file_.info(tensor).shape; }
  std::vector<float> values(const std::string& tensor) const { return file_.read<float>(tensor); }
  std::vector<int32_t> ids(const std::string& tensor) const { return file_.read<int32_t>(tensor); }
  Tensor tensor(const std::string& tensor) const;  // on the tests' backend, in its own type

 private:
  SafetensorsFile file_;
};

// What to give to differs(): its measure is the files' own. `key`: where a file has a second one ("tol_loss").
double golden_tolerance(const Golden& golden, const std::string& key = "tol");

}  // namespace course::test
