#include "chapters/10_tensor_parallel_training/checkpoint_index.hpp"

#include <nlohmann/json.hpp>

#include "tests/support/catch.hpp"

using namespace course;
using nlohmann::json;

namespace {

// Of w [4,6].
json piece(const std::string& offset, const std::string& size) {
  return json::parse(R"({"tensor": "w", "dtype": "F32", "file": "rank-0000.safetensors", "key": "w", "hash": "0", "global": [4, 6], )" +
                     cat("\"offset\": ", offset, ", \"size\": ", size, "}"));
}

}  // namespace

TEST_CASE("checkpoint index: pieces beside each other are taken, pieces over each other are not") {
  const json beside = {{"pieces", {piece("[0, 0]", "[4, 3]"), piece("[0, 3]", "[4, 3]")}}};
  CHECK(pieces_by_tensor(beside, "index.json").at("w").size() == 2);
  // As many elements as the tensor has, and a column that nobody holds.
  const json over = {{"pieces", {piece("[0, 0]", "[4, 3]"), piece("[0, 2]", "[4, 3]")}}};
  CHECK_THROWS_WITH(pieces_by_tensor(over, "index.json"),
                    "index.json: two pieces of w overlap: [0:4,0:3] and [0:4,2:5]");
}
