#include "common/support/safetensors_header.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <tuple>
#include <utility>

#include <nlohmann/json.hpp>

#include "common/check.hpp"

namespace course {
namespace {

using nlohmann::json;

constexpr int kMaxDepth = 128;  // of brackets, as in the reference library
constexpr size_t kMaxQuoted = 80;
constexpr const char* kMetadata = "__metadata__";

struct TypeRow {
  const char* name;
  int64_t bits;
};
constexpr TypeRow kTypes[] = {{"BOOL", 8},        {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"U8", 8},
                              {"I8", 8},          {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8},
                              {"F8_E5M2FNUZ", 8}, {"I16", 16},    {"U16", 16},    {"F16", 16},    {"BF16", 16},
                              {"I32", 32},        {"U32", 32},    {"F32", 32},    {"C64", 64},    {"F64", 64},
                              {"I64", 64},        {"U64", 64}};
static_assert(std::size(kTypes) == static_cast<size_t>(StoredType::U64) + 1);

std::string clipped(std::string text) {
  if (text.size() <= kMaxQuoted) return text;
  size_t end = kMaxQuoted;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;  // whole characters only
  return text.substr(0, end) + "...";
}

// The first byte that is not UTF-8, or npos.
size_t first_not_utf8(std::string_view text) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  for (size_t i = 0; i < text.size();) {
    const unsigned lead = byte(i);
    const size_t more = lead < 0x80 ? 0 : lead >= 0xC2 && lead < 0xE0 ? 1 : (lead & 0xF0) == 0xE0 ? 2 : 3;
    if ((lead >= 0x80 && lead < 0xC2) || lead > 0xF4) return i;
    for (size_t k = 1; k <= more; ++k) {
      if ((byte(i + k) & 0xC0) != 0x80) return i;
    }
    const unsigned next = byte(i + 1);
    const bool overlong = (lead == 0xE0 && next < 0xA0) || (lead == 0xF0 && next < 0x90);
    const bool surrogate = lead == 0xED && next >= 0xA0;
    if (overlong || surrogate || (lead == 0xF4 && next >= 0x90)) return i;
    i += more + 1;
  }
  return std::string_view::npos;
}

// What can be said of the text before a parser sees it: a parser may recurse, skip a byte-order mark, or stop at a NUL.
void check_text(std::string_view text) {
  require(!text.empty(), "the header is empty: its length is 0");
  const size_t broken = first_not_utf8(text);
  require(broken == std::string_view::npos, "the header is not UTF-8 at its byte ", broken);
  const size_t nul = text.find('\0');
  require(nul == std::string_view::npos, "the header has a NUL at its byte ", nul);
  const char first = text.front();
  require(first != ' ' && first != '\t' && first != '\n' && first != '\r', "white space stands before the header's {");
  require(first == '{', "the header is not a JSON object: it starts with ",
          static_cast<unsigned char>(first) < 0x80 ? in_quotes(text.substr(0, 1)) : "no ASCII");

  bool in_string = false;
  int depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      require(++depth <= kMaxDepth, "the header's brackets nest deeper than ", kMaxDepth, " at its byte ", i);
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
}

// Takes the header token by token, so that a key that comes twice is seen and nothing is built that is not kept.
class HeaderReader : public nlohmann::json_sax<json> {
 public:
  HeaderReader(SafetensorsHeader& to, size_t text_size) : to_(to), text_size_(text_size) {}

  bool null() override { return (at_ == At::Root && name_ == kMetadata) || other("null"); }
  bool boolean(bool) override { return other("a boolean"); }
  bool number_integer(int64_t value) override { return bad_number(std::to_string(value), "is negative"); }
  bool number_float(double, const std::string& text) override {
    return bad_number(clipped(text), "is not a whole number below 2^63");
  }
  bool number_unsigned(uint64_t value) override {
    if (!in_numbers()) return other("a number");
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return bad_number(std::to_string(value), "is not a whole number below 2^63");
    }
    (at_ == At::Shape ? tensor_.shape : offsets_).push_back(static_cast<int64_t>(value));
    return true;
  }
  bool string(std::string& value) override {
    if (at_ == At::Metadata) {
      require(to_.metadata.emplace(field_, std::move(value)).second, kMetadata, " has ", in_quotes(field_), " twice");
      return true;
    }
    if (at_ != At::Tensor || ignored_ > 0 || field_ != "dtype") return other("a string");
    const auto* row =
        std::find_if(std::begin(kTypes), std::end(kTypes), [&](const TypeRow& r) { return value == r.name; });
    require(row != std::end(kTypes), tensor(), ": no such dtype: ", in_quotes(value));
    tensor_.type = static_cast<StoredType>(row - kTypes);
    return true;
  }
  bool binary(json::binary_t&) override { return other("binary"); }

  bool key(std::string& text) override {
    if (ignored_ > 0) return true;
    if (at_ == At::Root) {
      name_ = std::move(text);
      require(name_ != kMetadata || !std::exchange(has_metadata_, true), "the header has ", kMetadata, " twice");
      return true;
    }
    field_ = std::move(text);
    if (at_ != At::Tensor) return true;
    for (auto [known, seen] :
         {std::pair{"dtype", &has_type_}, {"shape", &has_shape_}, {"data_offsets", &has_offsets_}}) {
      if (field_ != known) continue;
      require(!*seen, tensor(), " has ", field_, " twice");
      *seen = true;
    }
    return true;
  }
  bool start_object(size_t) override {
    if (at_ == At::Outside) {
      at_ = At::Root;
    } else if (at_ == At::Root && name_ == kMetadata) {
      at_ = At::Metadata;
    } else if (at_ == At::Root) {
      tensor_ = {};
      offsets_.clear();
      has_type_ = has_shape_ = has_offsets_ = false;
      at_ = At::Tensor;
    } else {
      other("an object");
      ++ignored_;
    }
    return true;
  }
  bool end_object() override {
    if (ignored_ > 0) {
      --ignored_;
    } else if (at_ == At::Root) {
      at_ = At::Outside;
      whole_ = true;
    } else {
      if (at_ == At::Tensor) keep();
      at_ = At::Root;
    }
    return true;
  }
  bool start_array(size_t) override {
    if (at_ == At::Tensor && ignored_ == 0 && (field_ == "shape" || field_ == "data_offsets")) {
      at_ = field_ == "shape" ? At::Shape : At::Offsets;
    } else {
      other("a list");
      ++ignored_;
    }
    return true;
  }
  bool end_array() override {
    if (ignored_ > 0) {
      --ignored_;
      return true;
    }
    if (at_ == At::Offsets) {
      require(offsets_.size() == 2, tensor(), ": data_offsets has length ", offsets_.size(), ", not 2");
    }
    at_ = At::Tensor;
    return true;
  }
  bool parse_error(size_t position, const std::string&, const json::exception&) override {
    require(!whole_, "more text follows the header's JSON object at its byte ", position - 1);
    require(position <= text_size_, "the header's JSON ends before it is complete");
    fail(cat("the header is not JSON at its byte ", position - 1));
  }

 private:
  enum class At { Outside, Root, Metadata, Tensor, Shape, Offsets };

  std::string tensor() const { return "tensor " + in_quotes(name_); }
  bool in_numbers() const { return ignored_ == 0 && (at_ == At::Shape || at_ == At::Offsets); }

  bool bad_number(const std::string& text, const char* why) {
    if (!in_numbers()) return other("a number");
    fail(cat(tensor(), ": ", field_, ": ", text, " ", why));
  }

  // A value that nobody asked for: passed over inside a field that the format does not know, else refused.
  bool other(const char* what) {
    if (ignored_ > 0) return true;
    switch (at_) {
      case At::Outside:
        fail(cat("the header is ", what, ", not a JSON object"));
      case At::Root:
        if (name_ == kMetadata) fail(cat(kMetadata, " is ", what, ", not an object"));
        fail(cat(tensor(), " is ", what, ", not an object"));
      case At::Metadata:
        fail(cat(kMetadata, ": ", in_quotes(field_), " is ", what, ", not a string"));
      case At::Tensor:
        require(field_ != "dtype", tensor(), ": dtype is ", what, ", not a string");
        require(field_ != "shape" && field_ != "data_offsets", tensor(), ": ", field_, " is ", what, ", not a list");
        return true;
      case At::Shape:
      case At::Offsets:
        fail(cat(tensor(), ": ", field_, " holds ", what, ", not numbers alone"));
    }
    return true;
  }

  void keep() {
    require(has_type_, tensor(), " has no dtype");
    require(has_shape_, tensor(), " has no shape");
    require(has_offsets_, tensor(), " has no data_offsets");
    tensor_.name = std::move(name_);
    tensor_.begin = offsets_[0];
    tensor_.end = offsets_[1];
    to_.tensors.push_back(std::move(tensor_));
  }

  SafetensorsHeader& to_;
  size_t text_size_;
  At at_ = At::Outside;
  int64_t ignored_ = 0;  // brackets open inside an unknown field
  bool whole_ = false, has_metadata_ = false, has_type_ = false, has_shape_ = false, has_offsets_ = false;
  std::string name_, field_;
  StoredTensor tensor_;
  Shape offsets_;
};

std::string range(const StoredTensor& t) { return cat("[", t.begin, ",", t.end, ")"); }

void check_names(const std::vector<StoredTensor>& tensors) {
  std::vector<size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return std::tie(tensors[a].name, a) < std::tie(tensors[b].name, b); });
  for (size_t i = 1; i < order.size(); ++i) {
    const StoredTensor &a = tensors[order[i - 1]], &b = tensors[order[i]];
    require(a.name != b.name, "two tensors are named ", in_quotes(a.name), ", at bytes ", range(a), " and ", range(b));
  }
}

void check_sizes(const std::vector<StoredTensor>& tensors) {
  for (const StoredTensor& t : tensors) {
    require(t.begin <= t.end, "tensor ", in_quotes(t.name), " ends at byte ", t.end, ", before it begins at ", t.begin);
    int64_t needed = 0;
    try {
      needed = stored_bytes(t.type, t.shape);
    } catch (const Error& e) {
      fail(cat("tensor ", in_quotes(t.name), ": ", e.what()));
    }
    require(t.end - t.begin == needed, "tensor ", in_quotes(t.name), ": ", name_of(t.type), " ", clipped(show(t.shape)),
            " needs ", needed, " bytes, its offsets hold ", t.end - t.begin);
  }
}

void check_cover(const std::vector<StoredTensor>& sorted, int64_t data_bytes) {
  const StoredTensor* before = nullptr;
  int64_t covered = 0;
  for (const StoredTensor& t : sorted) {
    require(before || t.begin == 0, "the first tensor, ", in_quotes(t.name), ", starts at byte ", t.begin,
            " of the data, not at 0");
    require(t.begin >= covered, "tensor ", in_quotes(t.name), " starts at byte ", t.begin, ", inside tensor ",
            in_quotes(before ? before->name : ""), ", which ends at ", covered);
    require(t.begin == covered, "tensor ", in_quotes(t.name), " starts at byte ", t.begin, ", and bytes ", covered,
            " to ", t.begin, " belong to no tensor");
    require(t.end <= data_bytes, "tensor ", in_quotes(t.name), " ends at byte ", t.end,
            " of the data, and the file ends at ", data_bytes);
    covered = t.end;
    before = &t;
  }
  require(covered == data_bytes, data_bytes - covered, " bytes at the end of the file belong to no tensor");
}

std::string in_json(const std::string& text, const char* what) {
  require(first_not_utf8(text) == std::string_view::npos, what, " ", in_quotes(text), " is not UTF-8");
  return json(text).dump();
}

}  // namespace

const char* name_of(StoredType type) { return kTypes[static_cast<size_t>(type)].name; }
int64_t bits_of(StoredType type) { return kTypes[static_cast<size_t>(type)].bits; }

int64_t stored_bytes(StoredType type, const Shape& shape) {
  const auto refuse = [&](const char* why) { fail(cat(name_of(type), " ", clipped(show(shape)), " ", why)); };
  int64_t elements = 1, bits = 0;
  for (int64_t size : shape) {
    if (size < 0) refuse("has a negative size");
    if (__builtin_mul_overflow(elements, size, &elements)) refuse("has more elements than 2^63");
  }
  if (__builtin_mul_overflow(elements, bits_of(type), &bits)) refuse("has more bits than 2^63");
  if (bits % 8 != 0) refuse("does not fill a whole number of bytes");
  return bits / 8;
}

std::string in_quotes(std::string_view text) {
  std::string out = "'";
  for (char c : clipped(std::string(text.substr(0, kMaxQuoted + 1)))) {
    const auto byte = static_cast<unsigned char>(c);
    constexpr const char* kHex = "0123456789abcdef";
    if (byte >= 0x20 && byte != 0x7F)
      out += c;
    else
      out += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
  }
  return out + "'";
}

SafetensorsHeader parse_header(std::string_view text, int64_t data_bytes) {
  check_text(text);
  SafetensorsHeader header;
  HeaderReader reader(header, text.size());
  json::sax_parse(text.begin(), text.end(), &reader);
  check_names(header.tensors);
  check_sizes(header.tensors);
  std::stable_sort(header.tensors.begin(), header.tensors.end(), [](const StoredTensor& a, const StoredTensor& b) {
    return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
  });
  check_cover(header.tensors, data_bytes);
  return header;
}

std::string make_header(std::vector<StoredTensor>& tensors, const Metadata& metadata) {
  std::sort(tensors.begin(), tensors.end(), [](const StoredTensor& a, const StoredTensor& b) {
    return std::tie(b.type, a.name) < std::tie(a.type, b.name);
  });
  std::string text, separator = "{";
  if (!metadata.empty()) {
    text += separator + in_json(kMetadata, "");
    separator = ":{";
    for (const auto& [key, value] : metadata) {
      text += separator + in_json(key, "the metadata's key") + ":" + in_json(value, "the metadata's value");
      separator = ",";
    }
    text += "}";
  }
  int64_t next = 0;
  for (StoredTensor& t : tensors) {
    require(t.name != kMetadata, "a tensor cannot be named ", kMetadata);
    t.begin = next;
    require(!__builtin_add_overflow(next, stored_bytes(t.type, t.shape), &next),
            "the tensors have more bytes than 2^63");
    t.end = next;
    text += separator + in_json(t.name, "the tensor's name") + ":{\"dtype\":\"" + name_of(t.type) +
            "\",\"shape\":" + show(t.shape) + cat(",\"data_offsets\":[", t.begin, ",", t.end, "]}");
    separator = ",";
  }
  if (text.empty()) text = "{";
  text += "}";
  check_names(tensors);
  text.resize((text.size() + 7) / 8 * 8, ' ');
  require(text.size() <= kMaxHeader, "the header has ", text.size(), " bytes, the format's limit is ", kMaxHeader);
  return text;
}

}  // namespace course
