// safetensors: others' files read, bad files refused, our files read back. Case B33.
#include "common/support/safetensors.hpp"

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <new>
#include <random>
#include <set>
#include <sstream>

#include <nlohmann/json.hpp>

#include "common/check.hpp"
#include "tests/support/catch.hpp"

namespace fs = std::filesystem;
using namespace course;
using nlohmann::json;

// ---------------------------------------------------------------------------------------------------------------
// Memory: what this thread asks operator new for, counted while a Peak is alive. The mapping itself is not counted.

namespace {
thread_local int64_t g_live = 0, g_peak = 0;

struct Peak {
  int64_t before = g_live;
  Peak() { g_peak = g_live; }
  int64_t bytes() const { return g_peak - before; }
};
}  // namespace

void* operator new(size_t size, const std::nothrow_t&) noexcept {
  void* memory = std::malloc(size > 0 ? size : 1);
  if (memory) g_live += static_cast<int64_t>(malloc_usable_size(memory));
  g_peak = std::max(g_peak, g_live);
  return memory;
}
void* operator new(size_t size) {
  if (void* memory = operator new(size, std::nothrow)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept {
  if (memory) g_live -= static_cast<int64_t>(malloc_usable_size(memory));
  std::free(memory);
}
void operator delete(void* memory, size_t) noexcept { operator delete(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { operator delete(memory); }

namespace {

// ---------------------------------------------------------------------------------------------------------------
// Files and folders

struct TemporaryFolder {
  fs::path path;
  TemporaryFolder() {
    std::string name = (fs::temp_directory_path() / "safetensors_test_XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path = name;
  }
  ~TemporaryFolder() { fs::remove_all(path); }
  std::string file(const std::string& name) const { return (path / name).string(); }
};

fs::path golden() {
  const char* other = std::getenv("COURSE_GOLDEN");
  return other ? other : "tests/golden";
}

std::vector<fs::path> files_in(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".safetensors") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::string text_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void put(const std::string& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

std::string length_of(uint64_t n) { return {reinterpret_cast<const char*>(&n), sizeof(n)}; }

std::string file_text(const std::string& header, const std::string& data = "") {
  return length_of(header.size()) + header + data;
}

// What the reader says against a file, or "" when it takes it.
std::string refusal(const std::string& path) {
  try {
    SafetensorsFile file(path);
    return "";
  } catch (const Error& e) {
    return e.what();
  }
}

// The same for a header made here, without the path.
std::string reason(const std::string& header, const std::string& data = "") {
  TemporaryFolder folder;
  const std::string path = folder.file("f");
  put(path, file_text(header, data));
  const std::string words = refusal(path);
  return words.empty() ? "" : words.substr(path.size() + 2);
}

std::string entry(const std::string& name, const std::string& dtype, const std::string& shape,
                  const std::string& offsets) {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape + ",\"data_offsets\":" + offsets + "}";
}

using Catch::Matchers::Contains;

// ---------------------------------------------------------------------------------------------------------------
// Values against expected.json

double as_double(const json& value) {
  return value.is_string() ? std::strtod(value.get<std::string>().c_str(), nullptr) : value.get<double>();
}

bool same(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || (a == b && std::signbit(a) == std::signbit(b));
}

// Integers of any width, so that a type we have no read() for is compared too.
template <typename T>
std::vector<json> integers(std::span<const std::byte> bytes) {
  std::vector<json> values;
  for (size_t i = 0; i < bytes.size(); i += sizeof(T)) {
    T value;
    std::memcpy(&value, bytes.data() + i, sizeof(T));
    values.push_back(value);
  }
  return values;
}

std::vector<json> integers(const SafetensorsFile& file, const StoredTensor& t) {
  const auto bytes = file.bytes(t.name);
  switch (t.type) {
    case StoredType::I8:
      return integers<int8_t>(bytes);
    case StoredType::U8:
      return integers<uint8_t>(bytes);
    case StoredType::I16:
      return integers<int16_t>(bytes);
    case StoredType::U16:
      return integers<uint16_t>(bytes);
    case StoredType::I32:
      return integers<int32_t>(bytes);
    case StoredType::U32:
      return integers<uint32_t>(bytes);
    case StoredType::I64:
      return integers<int64_t>(bytes);
    case StoredType::U64:
      return integers<uint64_t>(bytes);
    default:
      FAIL("expected.json has values of a type this test cannot compare: " << name_of(t.type));
      return {};
  }
}

void compare(const SafetensorsFile& file, const json& expected) {
  const std::string name = expected["name"];
  INFO("tensor " << name);
  REQUIRE(file.has(name));
  const StoredTensor& t = file.info(name);
  CHECK(name_of(t.type) == expected["dtype"].get<std::string>());
  CHECK(t.shape == expected["shape"].get<Shape>());
  const json& values = expected["values"];
  REQUIRE(static_cast<int64_t>(values.size()) == numel(t.shape));
  if (t.type == StoredType::BOOL) {
    const auto ours = file.read<uint8_t>(name);
    for (size_t i = 0; i < ours.size(); ++i) CHECK((ours[i] != 0) == values[i].get<bool>());
  } else if (name_of(t.type)[0] == 'F' || name_of(t.type)[0] == 'B') {
    const auto ours = file.read<double>(name);
    const auto rounded = file.read<float>(name);
    for (size_t i = 0; i < ours.size(); ++i) {
      INFO("[" << i << "]: " << ours[i] << " read, " << values[i] << " expected");
      CHECK(same(ours[i], as_double(values[i])));
      CHECK(same(rounded[i], static_cast<float>(as_double(values[i]))));
    }
  } else {
    CHECK(integers(file, t) == values.get<std::vector<json>>());
    if (t.type == StoredType::I32) CHECK(json(file.read<int32_t>(name)) == values);
    if (t.type == StoredType::I32 || t.type == StoredType::I64) CHECK(json(file.read<int64_t>(name)) == values);
  }
}

// ---------------------------------------------------------------------------------------------------------------
// bad/README.md has a row a file: | name | what is wrong | what the reference library says |

std::string without(std::string text, const std::function<bool(char)>& unwanted) {
  text.erase(std::remove_if(text.begin(), text.end(), unwanted), text.end());
  return text;
}

std::string without_digits(const std::string& text) {
  return without(text, [](char c) { return c >= '0' && c <= '9'; });
}

std::map<std::string, std::string> reference_words(const fs::path& readme) {
  std::map<std::string, std::string> words;
  std::ifstream in(readme);
  for (std::string line; std::getline(in, line);) {
    std::vector<std::string> cells;
    std::istringstream cut(line);
    for (std::string cell; std::getline(cut, cell, '|');) cells.push_back(cell);
    if (cells.size() < 4 || line.front() != '|') continue;
    words[without(cells[1], [](char c) { return c == ' '; })] = cells[3];
  }
  return words;
}

}  // namespace

TEST_CASE("files of the reference library are read to the last bit", "[golden]") {
  const fs::path folder = golden() / "safetensors";
  const json expected = json::parse(text_of(folder / "expected.json"));
  const auto files = files_in(folder);
  REQUIRE(!files.empty());
  CHECK(files.size() == expected.size());
  for (const fs::path& path : files) {
    INFO(path);
    REQUIRE(expected.contains(path.stem().string()));
    const json& wanted = expected[path.stem().string()];
    const SafetensorsFile file(path.string());
    CHECK(json(file.metadata()) == wanted["metadata"]);
    CHECK(file.tensors().size() == wanted["tensors"].size());
    std::vector<std::string> names;
    for (const json& tensor : wanted["tensors"]) {
      compare(file, tensor);
      names.push_back(tensor["name"]);
    }
    std::sort(names.begin(), names.end());
    CHECK(file.names() == names);
    CHECK(std::is_sorted(file.tensors().begin(), file.tensors().end(),
                         [](const StoredTensor& a, const StoredTensor& b) { return a.begin < b.begin; }));
  }
}

TEST_CASE("every golden case opens, and written again it holds the same", "[golden]") {
  TemporaryFolder folder;
  auto files = files_in(golden());
  for (const fs::path& path : files_in(golden() / "safetensors")) files.push_back(path);
  REQUIRE(!files.empty());
  for (const fs::path& path : files) {
    INFO(path);
    const SafetensorsFile file(path.string());
    std::vector<TensorBytes> tensors;
    for (const StoredTensor& t : file.tensors()) tensors.push_back({t.name, t.type, t.shape, file.bytes(t.name)});
    write_safetensors(folder.file("again"), tensors, file.metadata());
    const SafetensorsFile again(folder.file("again"));
    CHECK(again.metadata() == file.metadata());
    REQUIRE(again.names() == file.names());
    for (const StoredTensor& t : file.tensors()) {
      CHECK(again.info(t.name).type == t.type);
      CHECK(again.info(t.name).shape == t.shape);
      CHECK(std::ranges::equal(again.bytes(t.name), file.bytes(t.name)));
    }
  }
}

TEST_CASE("every bad file is refused for its own reason", "[golden]") {
  const fs::path folder = golden() / "safetensors" / "bad";
  const auto reference = reference_words(folder / "README.md");
  std::map<std::string, std::string> reasons;  // of each file, the path taken off
  for (const fs::path& path : files_in(folder)) {
    INFO(path);
    const std::string words = refusal(path.string());
    REQUIRE(words.rfind(path.string() + ": ", 0) == 0);
    CHECK(words.find('\n') == std::string::npos);
    const std::string why = words.substr(path.string().size() + 2);
    CHECK(why.size() > 10);
    CHECK(words.size() < path.string().size() + 300);
    // Where the reference library names a tensor, so do we.
    const auto theirs = reference.find(path.stem().string());
    if (theirs != reference.end() && theirs->second.find("tensor `") != std::string::npos) {
      CHECK(why.find('\'') != std::string::npos);
    }
    for (const auto& [other, said] : reasons) {
      INFO("and " << other << " are both told: " << said);
      CHECK(said != why);
      const auto other_theirs = reference.find(other);
      if (theirs == reference.end() || other_theirs == reference.end()) continue;
      const bool other_kind = without_digits(theirs->second) != without_digits(other_theirs->second);
      const bool accepted = theirs->second.find("accepted") != std::string::npos ||
                            other_theirs->second.find("accepted") != std::string::npos;
      if (other_kind && !accepted) CHECK(without_digits(said) != without_digits(why));
    }
    reasons[path.stem().string()] = why;
  }
  REQUIRE(!reasons.empty());
}

TEST_CASE("B33: a hostile header is refused by name and in little memory") {
  TemporaryFolder folder;
  const std::string path = folder.file("hostile");
  const std::string good = "{" + entry("w", "F32", "[5]", "[0,20]") + "}";
  const std::string data(20, 'x');
  const auto refused = [&](const std::string& text) {
    put(path, text);
    const Peak peak;
    const std::string words = refusal(path);
    CHECK(peak.bytes() < 64 * 1024 + 16 * static_cast<int64_t>(text.size()));
    CHECK(words.rfind(path + ": ", 0) == 0);
    CHECK(words.find('\n') == std::string::npos);
    return words;
  };
  const auto one = [&](const std::string& dtype, const std::string& shape, const std::string& offsets,
                       size_t bytes = 20) {
    const std::string words =
        refused(file_text("{" + entry("w", dtype, shape, offsets) + "}", std::string(bytes, 'x')));
    CHECK_THAT(words, Contains("'w'"));
    return words;
  };

  SECTION("lengths") {
    CHECK_THAT(refused(length_of(0xFFFFFFFFFFFFFFFC) + good + data), Contains("limit"));
    CHECK_THAT(refused(length_of(0xFFFFFFFFFFFFFFF8) + good + data), Contains("limit"));
    CHECK_THAT(refused(length_of(uint64_t{1} << 63) + good + data), Contains("limit"));
    CHECK_THAT(refused(length_of(101'000'000) + good + data), Contains("limit"));
    CHECK_THAT(refused(length_of(100'000'000) + good + data), Contains("the file has only"));
    CHECK_THAT(refused(length_of(good.size() + data.size() + 1) + good + data), Contains("the file has only"));
    CHECK_THAT(refused(""), Contains("empty"));
    CHECK_THAT(refused(std::string(7, '\1')), Contains("7 bytes"));
  }
  SECTION("a header as long as the limit, of zeros") {
    put(path, length_of(100'000'000));
    fs::resize_file(path, 100'000'020);
    const Peak peak;
    CHECK_THAT(refusal(path), Contains("NUL"));
    CHECK(peak.bytes() < 64 * 1024);
  }
  SECTION("shape, dtype and offsets disagree") {
    CHECK_THAT(one("F32", "[1000,1000]", "[0,4]", 4), Contains("4000000"));
    CHECK_THAT(one("F32", "[32,8]", "[0,65536]", 65536), Contains("1024"));
    CHECK_THAT(one("F32", "[5]", "[20,0]"), Contains("before it begins"));
    CHECK_THAT(one("F32", "[5]", "[0]"), Contains("length 1"));
    CHECK_THAT(one("F32", "[5]", "[0,20,20]"), Contains("length 3"));
    CHECK_THAT(one("F99", "[5]", "[0,20]"), Contains("'F99'"));
    CHECK_THAT(one("F32", "[9223372036854775807,3]", "[0,20]"), Contains("elements"));
    CHECK_THAT(one("F32", "[4611686018427387909]", "[0,20]"), Contains("bits"));
    CHECK_THAT(one("F4", "[3]", "[0,1]", 1), Contains("whole number of bytes"));
    CHECK_THAT(one("F32", "[18446744073709551615,0]", "[0,0]", 0), Contains("2^63"));
  }
  SECTION("tensors that overlap or leave a gap") {
    const auto two = [&](const std::string& a, const std::string& b, size_t bytes) {
      return refused(file_text("{" + entry("a", "U8", "[100]", a) + "," + entry("b", "U8", "[100]", b) + "}",
                               std::string(bytes, 'x')));
    };
    CHECK_THAT(two("[0,100]", "[50,150]", 150), Contains("'b'") && Contains("inside tensor 'a'"));
    CHECK_THAT(two("[0,100]", "[0,100]", 100), Contains("inside tensor"));
    CHECK_THAT(two("[0,100]", "[101,201]", 201), Contains("'b'") && Contains("belong to no tensor"));
    CHECK_THAT(two("[0,100]", "[100,200]", 199), Contains("'b'") && Contains("the file ends at 199"));
    CHECK_THAT(two("[0,100]", "[100,200]", 201), Contains("at the end"));
    CHECK_THAT(two("[4,104]", "[104,204]", 204), Contains("'a'") && Contains("at byte 4") && Contains("not at 0"));
    CHECK_THAT(two("[9223372036854775707,9223372036854775807]", "[0,100]", 100), Contains("'a'"));
  }
  SECTION("a key twice") {
    CHECK_THAT(refused(file_text("{" + entry("w", "U8", "[4]", "[0,4]") + "," + entry("w", "U8", "[4]", "[4,8]") + "}",
                                 "12345678")),
               Contains("two tensors are named 'w'"));
    CHECK_THAT(reason(R"({"w":{"dtype":"U8","dtype":"U8","shape":[0],"data_offsets":[0,0]}})"),
               Contains("dtype twice"));
    CHECK_THAT(reason(R"({"w":{"dtype":"U8","shape":[0],"shape":[0],"data_offsets":[0,0]}})"), Contains("shape twice"));
    CHECK_THAT(reason(R"({"__metadata__":{"k":"1","k":"2"}})"), Contains("'k' twice"));
    CHECK_THAT(reason(R"({"__metadata__":null,"__metadata__":{}})"), Contains("__metadata__ twice"));
  }
  SECTION("nesting") {
    const std::string deep(100'000, '[');
    CHECK_THAT(refused(file_text("{\"w\":" + deep)), Contains("nest"));
    CHECK_THAT(refused(file_text("{\"w\":" + deep + std::string(deep.size(), ']') + "}")), Contains("nest"));
    std::string objects;
    for (int i = 0; i < 100'000; ++i) objects += "{\"a\":";
    CHECK_THAT(refused(file_text(objects)), Contains("nest"));
    CHECK(reason(R"({"w":{"dtype":"U8","shape":[0],"data_offsets":[0,0],"x":[[{"[[[[":[]}]]}})") == "");
  }
  SECTION("many small things") {
    std::string shape = "[0";
    for (int i = 0; i < 200'000; ++i) shape += ",1";
    CHECK_THAT(one("F32", shape + "]", "[0,20]"), Contains("needs 0 bytes"));
    const std::string long_name(300'000, 'n');
    const std::string words = refused(file_text("{" + entry(long_name, "F99", "[5]", "[0,20]") + "}", data));
    CHECK(words.size() < path.size() + 300);
    std::string header = "{";
    for (int i = 0; i < 20'000; ++i) header += entry(std::to_string(i), "U8", "[0]", "[0,0]") + ",";
    CHECK_THAT(refused(file_text(header + entry("7", "U8", "[0]", "[0,0]") + "}")),
               Contains("two tensors are named '7'"));
  }
  SECTION("text") {
    CHECK_THAT(refused(file_text("{" + entry("\xC3", "F32", "[5]", "[0,20]") + "}", data)), Contains("UTF-8"));
    CHECK_THAT(refused(file_text("{" + entry("\xED\xA0\x80", "F32", "[5]", "[0,20]") + "}", data)), Contains("UTF-8"));
    CHECK_THAT(refused(file_text("{" + entry("\xC0\xAF", "F32", "[5]", "[0,20]") + "}", data)), Contains("UTF-8"));
    CHECK_THAT(refused(file_text("\xEF\xBB\xBF" + good, data)), Contains("not a JSON object"));
    CHECK_THAT(refused(file_text(" " + good, data)), Contains("white space"));
    CHECK_THAT(refused(file_text(good + std::string(1, '\0'), data)), Contains("NUL"));
    CHECK_THAT(refused(file_text(good + "/* */", data)), Contains("more text"));
    CHECK_THAT(refused(file_text("{" + entry("two\\nlines", "F99", "[5]", "[0,20]") + "}", data)),
               Contains("'two\\x0alines'"));
    CHECK(reason(good + "  \n\t", data) == "");
  }
  SECTION("fields of the wrong kind") {
    CHECK_THAT(reason(R"({"w":3})"), Contains("'w' is a number"));
    CHECK_THAT(reason(R"({"w":["U8",[0],[0,0]]})"), Contains("'w' is a list"));
    CHECK_THAT(reason(R"({"w":{"dtype":7,"shape":[0],"data_offsets":[0,0]}})"), Contains("dtype is a number"));
    CHECK_THAT(reason(R"({"w":{"dtype":"U8","shape":0,"data_offsets":[0,0]}})"), Contains("shape is a number"));
    CHECK_THAT(reason(R"({"w":{"dtype":"U8","shape":[[0]],"data_offsets":[0,0]}})"), Contains("shape holds a list"));
    CHECK_THAT(reason(R"({"w":{"dtype":"U8","shape":[0],"data_offsets":{"a":0}}})"),
               Contains("data_offsets is an object"));
    CHECK_THAT(reason(R"({"w":{"dtype":"U8","data_offsets":[0,0]}})"), Contains("no shape"));
    CHECK_THAT(reason(R"({"__metadata__":[]})"), Contains("__metadata__ is a list"));
    CHECK_THAT(reason(R"({"__metadata__":{"a":{}}})"), Contains("'a' is an object"));
  }
}

TEST_CASE("a damaged file is read or refused, never worse", "[golden]") {
  TemporaryFolder folder;
  const std::string path = folder.file("damaged");
  std::mt19937 random(1);
  for (const fs::path& good : files_in(golden() / "safetensors")) {
    const std::string text = text_of(good);
    for (int i = 0; i < 1500; ++i) {
      std::string damaged = text;
      for (int k = 0; k <= i % 3; ++k) damaged[random() % damaged.size()] = "{}[]\",:0129-. \0\xFF"[random() % 16];
      if (i % 5 == 0) damaged.resize(random() % damaged.size());
      put(path, damaged);
      CHECK_NOTHROW(refusal(path));
    }
  }
}

TEST_CASE("what is written is read back: values, scalars, empty tensors, unicode names") {
  TemporaryFolder folder;
  const std::string path = folder.file("round.safetensors");
  const std::vector<float> w = {1.5f, -0.0f, std::numeric_limits<float>::infinity(), 1e-45f, 3, 4};
  const std::vector<int64_t> ids = {std::numeric_limits<int64_t>::min(), -1, std::numeric_limits<int64_t>::max()};
  const std::vector<int32_t> scalar = {-7};
  const std::vector<double> wide = {0.1, 1e300};
  const std::vector<float> none;
  const std::vector<uint16_t> halves = {0x3F80, 0xC000};  // bf16 1, -2
  const Metadata metadata = {{"format", "pt"}, {"naïve \"key\"\n", "λ\\\t"}};
  write_safetensors(path,
                    {{"w", StoredType::F32, {2, 3}, as_bytes_of(w)},
                     {"層.0/ü \"q\"", StoredType::I64, {3}, as_bytes_of(ids)},
                     {"scalar", StoredType::I32, {}, as_bytes_of(scalar)},
                     {"empty", StoredType::F32, {0, 5}, as_bytes_of(none)},
                     {"wide", StoredType::F64, {2}, as_bytes_of(wide)},
                     {"bf16", StoredType::BF16, {2}, as_bytes_of(halves)}},
                    metadata);
  const SafetensorsFile file(path);
  CHECK(file.metadata() == metadata);
  CHECK(file.tensors().size() == 6);
  const auto back = file.read<float>("w");
  CHECK(std::memcmp(back.data(), w.data(), w.size() * sizeof(float)) == 0);
  CHECK(file.info("w").shape == Shape{2, 3});
  CHECK(file.read<int64_t>("層.0/ü \"q\"") == ids);
  CHECK(file.read<int32_t>("scalar") == scalar);
  CHECK(file.read<int64_t>("scalar") == std::vector<int64_t>{-7});
  CHECK(file.info("scalar").shape.empty());
  CHECK(file.read<float>("empty").empty());
  CHECK(file.info("empty").shape == Shape{0, 5});
  CHECK(file.read<double>("wide") == wide);
  CHECK(file.read<float>("wide") == std::vector<float>{0.1f, std::numeric_limits<float>::infinity()});
  CHECK(file.read<float>("bf16") == std::vector<float>{1, -2});
  CHECK(reinterpret_cast<uintptr_t>(file.bytes("w").data()) % 8 == 0);  // the header is padded
  CHECK(!fs::exists(path + ".tmp"));

  SECTION("and misread, it says so") {
    CHECK_THROWS_WITH(file.read<float>("scalar"), Contains(path) && Contains("'scalar' is I32") && Contains("f32"));
    CHECK_THROWS_WITH(file.read<int32_t>("w"), Contains("'w' is F32"));
    CHECK_THROWS_WITH(file.read<uint8_t>("w"), Contains("'w' is F32"));
    CHECK_THROWS_WITH(file.read<int32_t>("層.0/ü \"q\""), Contains("I64"));
    CHECK_THROWS_WITH(file.read<float>("absent"), Contains(path) && Contains("'absent'"));
    std::vector<float> short_by_one(5);
    CHECK_THROWS_WITH(file.read<float>("w", short_by_one), Contains("[2,3]") && Contains("5"));
    CHECK(!file.has("absent"));
  }
}

TEST_CASE("a file without tensors") {
  TemporaryFolder folder;
  write_safetensors(folder.file("none"), {});
  CHECK(SafetensorsFile(folder.file("none")).tensors().empty());
  CHECK(text_of(folder.file("none")) == file_text("{}      "));
  write_safetensors(folder.file("none"), {}, {{"a", "b"}});
  CHECK(SafetensorsFile(folder.file("none")).metadata() == Metadata{{"a", "b"}});
}

TEST_CASE("the bytes of a file do not depend on the order in which it is written") {
  TemporaryFolder folder;
  const std::string one = "abcdefgh", two = "ijklmnop";
  const auto a = as_bytes_of(one), b = as_bytes_of(two);
  write_safetensors(folder.file("1"),
                    {{"a", StoredType::F32, {2}, a}, {"b", StoredType::I64, {1}, b}, {"c", StoredType::F32, {2}, b}});
  write_safetensors(folder.file("2"),
                    {{"c", StoredType::F32, {2}, b}, {"b", StoredType::I64, {1}, b}, {"a", StoredType::F32, {2}, a}});
  // The reference library's order, to the byte: wide types first, then by name.
  const std::string header = "{" + entry("b", "I64", "[1]", "[0,8]") + "," + entry("a", "F32", "[2]", "[8,16]") + "," +
                             entry("c", "F32", "[2]", "[16,24]") + "}";
  const std::string padded = header + std::string((8 - header.size() % 8) % 8, ' ');
  CHECK(text_of(folder.file("1")) == file_text(padded, two + one + two));
  CHECK(text_of(folder.file("2")) == text_of(folder.file("1")));

  SafetensorsWriter out(folder.file("3"),
                        {{"a", StoredType::F32, {2}}, {"c", StoredType::F32, {2}}, {"b", StoredType::I64, {1}}});
  out.append("c", b.first(3));
  out.append("a", a);
  out.append("c", b.subspan(3));
  out.append("b", b);
  CHECK(!fs::exists(folder.file("3")));
  out.finish();
  CHECK(text_of(folder.file("3")) == text_of(folder.file("1")));
}

TEST_CASE("a file that is not finished leaves the old one as it was") {
  TemporaryFolder folder;
  const std::string path = folder.file("kept");
  const std::string old = "12345678", fresh = "abcdefgh";
  write_safetensors(path, {{"w", StoredType::U8, {8}, as_bytes_of(old)}});
  const std::string before = text_of(path);
  {
    SafetensorsWriter out(path, {{"w", StoredType::U8, {8}}});
    out.append("w", as_bytes_of(fresh).first(5));
    CHECK(fs::exists(path + ".tmp"));
    CHECK_THROWS_WITH(out.finish(), Contains(path) && Contains("'w' lacks 3 bytes"));
    CHECK_THROWS_WITH(out.append("w", as_bytes_of(fresh)), Contains("room for 3"));
    CHECK_THROWS_WITH(out.append("v", as_bytes_of(fresh)), Contains("'v'"));
  }
  CHECK(text_of(path) == before);
  CHECK(!fs::exists(path + ".tmp"));
}

TEST_CASE("what cannot be written is refused, and the path is named") {
  TemporaryFolder folder;
  const std::string path = folder.file("refused");
  const std::string eight = "12345678";
  const auto bytes = as_bytes_of(eight);
  const auto written = [&](const std::string& at, std::vector<TensorBytes> tensors, const Metadata& metadata = {}) {
    try {
      write_safetensors(at, tensors, metadata);
    } catch (const Error& e) {
      CHECK_THAT(e.what(), Contains(at));
      return std::string(e.what());
    }
    return std::string();
  };
  CHECK_THAT(written(path, {{"w", StoredType::U8, {8}, bytes}, {"w", StoredType::U8, {8}, bytes}}),
             Contains("two tensors"));
  CHECK_THAT(written(path, {{"w", StoredType::U8, {9}, bytes}}), Contains("lacks 1"));
  CHECK_THAT(written(path, {{"w", StoredType::U8, {7}, bytes}}), Contains("room for 7"));
  CHECK_THAT(written(path, {{"w", StoredType::U8, {-8}, bytes}}), Contains("negative"));
  CHECK_THAT(written(path, {{"\xFF", StoredType::U8, {8}, bytes}}), Contains("UTF-8"));
  CHECK_THAT(written(path, {{"__metadata__", StoredType::U8, {8}, bytes}}), Contains("__metadata__"));
  CHECK_THAT(written(path, {}, {{"k", "\xFF"}}), Contains("UTF-8"));
  CHECK_THAT(written(folder.file("absent/f"), {}), Contains("cannot create"));
  CHECK(fs::is_empty(folder.path));
}

TEST_CASE("a mapped file is what the file is") {
  TemporaryFolder folder;
  put(folder.file("some"), "abc");
  put(folder.file("empty"), "");
  MappedFile some(folder.file("some"));
  REQUIRE(some.bytes().size() == 3);
  CHECK(static_cast<char>(some.bytes()[2]) == 'c');
  const std::byte* memory = some.bytes().data();
  MappedFile moved = std::move(some);
  CHECK(moved.bytes().data() == memory);
  CHECK(MappedFile(folder.file("empty")).bytes().empty());
  CHECK_THROWS_WITH(MappedFile(folder.file("absent")), Contains(folder.file("absent")) && Contains("No such file"));
  CHECK_THROWS_WITH(MappedFile(folder.path.string()), Contains(folder.path.string()) && Contains("not a regular file"));
}

TEST_CASE("every type of the format has a name and a size") {
  std::set<std::string> names;
  for (int i = 0; i <= static_cast<int>(StoredType::U64); ++i) {
    const auto type = static_cast<StoredType>(i);
    names.insert(name_of(type));
    CHECK(reason("{" + entry("w", name_of(type), "[8]", cat("[0,", bits_of(type), "]")) + "}",
                 std::string(static_cast<size_t>(bits_of(type)), 'x')) == "");
  }
  CHECK(names.size() == 22);
  CHECK(stored_bytes(StoredType::F6_E2M3, {4}) == 3);
  CHECK(stored_bytes(StoredType::C64, {2, 3}) == 48);
}
