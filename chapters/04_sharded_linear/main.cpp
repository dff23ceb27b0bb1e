// 04 sharded_linear: a Linear cut by columns and by rows, forward and backward. First by hand with f and g, and what
// goes wrong without each; then as modules under a style, an Embedding too, each beside its serial self.
#include <algorithm>
#include <optional>

#include "chapters/01_column_row_split/draw.hpp"
#include "chapters/01_column_row_split/sent_table.hpp"
#include "chapters/01_column_row_split/split.hpp"
#include "chapters/04_sharded_linear/conjugate_pair.hpp"
#include "chapters/04_sharded_linear/embedding.hpp"
#include "chapters/04_sharded_linear/linear.hpp"
#include "chapters/04_sharded_linear/parallel_style.hpp"
#include "common/chunk.hpp"
#include "common/rng.hpp"
#include "common/support/cli.hpp"
#include "common/support/session.hpp"

namespace course {
namespace {

// M rows of x  I in features  O out features  V vocabulary  P ranks
struct Sizes {
  int64_t M = 2, I = 4, O = 6, V = 6;
};

// Numbers small enough for a pencil; every sum of them is exact in f32.
struct Numbers {
  Numbers(Backend& backend, const Sizes& at)
      : X(backend.from_host(counting(at.M * at.I, 1), {at.M, at.I})),
        W(drawn("W", at.O * at.I)),
        b(counting(at.O, 100)),
        dY(backend.from_host(drawn("dY", at.M * at.O), {at.M, at.O})),
        table(drawn("table", at.V * at.I)),
        dX(backend.from_host(drawn("dX", at.M * at.I), {at.M, at.I})) {
    std::vector<int32_t> some(at.M);
    for (int64_t i = 0; i < at.M; ++i) some[i] = static_cast<int32_t>((4 + 3 * i) % at.V);
    ids = backend.from_host(some, {at.M});
  }
  static std::vector<float> counting(int64_t count, float step) {
    std::vector<float> values(count);
    for (int64_t i = 0; i < count; ++i) values[i] = step * static_cast<float>(1 + i % 9);
    return values;
  }
  static std::vector<float> drawn(const char* name, int64_t count) {
    const Rng rng(1752, name);
    std::vector<float> values(count);
    for (int64_t i = 0; i < count; ++i) values[i] = static_cast<float>(rng.bits(i) % 4);
    return values;
  }
  Tensor X;                  // [M,I]
  std::vector<float> W, b;   // [O,I], [O]
  Tensor dY;                 // [M,O], the gradient of Y
  std::vector<float> table;  // [V,I]
  Tensor ids, dX;            // [M], and the gradient of the table's output [M,I]
};

// c [M,N] = a bᵀ, or a b.
Tensor multiply(Backend& backend, const Tensor& a, const Tensor& b, bool transpose_b) {
  Tensor c = backend.empty({a.dim(0), b.dim(transpose_b ? 0 : 1)});
  backend.matmul(a, false, b, transpose_b, c);
  return c;
}

Tensor with_bias(Backend& backend, Tensor y, const Tensor& bias) {
  backend.add_bias(y, bias);
  return y;
}

class Chapter {
 public:
  Chapter(Session& session, const Sizes& sizes)
      : session_(session),
        backend_(session.backend()),
        sizes_(sizes),
        world_(session.world(), traffic_),
        tp_(world_, backend_, {{"tp", world_.size()}}),
        numbers_(backend_, sizes),
        W_(backend_.from_host(numbers_.W, {sizes.O, sizes.I})),
        b_(backend_.from_host(numbers_.b, {sizes.O})),
        Y_(with_bias(backend_, multiply(backend_, numbers_.X, W_, true), b_)),
        dX_(multiply(backend_, numbers_.dY, W_, false)) {}

  void by_columns();
  void by_rows();
  void embedding_by_rows();
  void wrong() { session_.out() << "4. What goes wrong\n\n" << faults_.str() << "\n"; }
  void under_styles();
  void finish() {
    session_.out() << differences_.str() << "\n" << sent_.str() << "\n";
    check_.check(world_);
    require_shared(largest_ == 0, "a sharded result differs from the serial one by ", largest_);
    session_.out() << "OK" << std::endl;
  }

 private:
  // The largest |a - b| of any rank; what is right must come out as 0.
  double off(const Tensor& a, const Tensor& b) { return world_.max(largest_difference(backend_, a, b)); }
  double right(const Tensor& a, const Tensor& b) {
    const double difference = off(a, b);
    largest_ = std::max(largest_, difference);
    return difference;
  }
  void fault(const std::string& what, const std::string& wrong, const Tensor& got, const Tensor& serial) {
    faults_.row(what, wrong, off(got, serial));
  }
  Tensor part(const Tensor& whole, int64_t dim) { return take_shard(backend_, world_, whole, dim); }

  // What one direction of a module sends: one collective on a whole of so many f32, or nothing.
  struct Call {
    std::optional<Op> op;
    int64_t numbers = 0;
  };
  void run(const std::string& name, const ParallelStyle& style, bool embedding, const Placement& input,
           const Placement& output, Call forward, Call backward);
  std::unique_ptr<Module> make(bool embedding);
  static void fill(Module& module, const Numbers& numbers);
  std::string calls_now() const;
  double formula(const Call& call) const;

  Session& session_;
  Backend& backend_;
  Sizes sizes_;
  Traffic traffic_;
  Recorder world_;
  DeviceMesh tp_;
  Numbers numbers_;
  Tensor W_, b_, Y_, dX_;  // [O,I], [O], and what one rank computes: [M,O], [M,I]
  double largest_ = 0;
  SentTable check_;
  Table faults_{{"left out, or done wrong", "|", "what is wrong", "|", "off by"}};
  Table differences_{{"largest difference from the serial self", "|", "output", "d input", "d weight", "d bias"}};
  Table sent_{{"sent by each rank", "|", "forward", "bytes: measured", "formula", "|", "backward", "bytes: measured",
               "formula"}};
};

void Chapter::by_columns() {
  const Tensor &X = numbers_.X, &dY = numbers_.dY;
  auto& out = session_.out();
  out << "Y = X Wᵀ + b on " << world_.size() << (world_.size() == 1 ? " rank" : " ranks") << ": X " << show(X.shape())
      << ", W " << show(W_.shape()) << ", b " << show(b_.shape()) << "\n\n";
  draw(session_, "X", X);
  draw(session_, "Y, by one rank", Y_);
  draw(session_, "dY, the gradient that comes back", dY);
  draw(session_, "dX = dY W, by one rank", dX_);

  out << "1. By columns: a rank holds rows of W (columns of Wᵀ) and their biases, and all of X.\n\n";
  const Tensor w = part(W_, 0), b = part(b_, 0);  // [O/P,I], [O/P]
  draw(session_, "W", w, Pieces::Rows);
  draw(session_, "b", backend_.clone(b).reshape({1, b.numel()}), Pieces::Columns);
  const Tensor x = f.forward(backend_, world_, X, X.shape());               // nothing
  const Tensor y = with_bias(backend_, multiply(backend_, x, w, true), b);  // [M,O/P]
  draw(session_, "Y: finished columns, nothing is sent", y, Pieces::Columns);
  right(y, part(Y_, 1));
  const Tensor term = multiply(backend_, part(dY, 1), w, false);  // [M,I]
  draw(session_, "dY W, from a rank's own columns of dY: a term of dX, and not dX", term, Pieces::Terms);
  const Tensor dx = f.backward(backend_, world_, term, dX_.shape());  // all-reduce
  out << "f on the way back, an all-reduce: dX is off by " << right(dx, dX_) << "\n\n";
  fault("f's all-reduce on the way back", "dX is a rank's own term", term, dX_);
}

void Chapter::by_rows() {
  const Tensor &X = numbers_.X, &dY = numbers_.dY;
  const int P = world_.size();
  auto& out = session_.out();
  out << "2. By rows: a rank holds columns of W and the columns of X that meet them. b is whole, and one rank adds "
         "it.\n\n";
  const Tensor w = part(W_, 1), x = part(X, 1);  // [O,I/P], [M,I/P]
  draw(session_, "X", x, Pieces::Columns);
  draw(session_, "W", w, Pieces::Columns);
  Tensor term = multiply(backend_, x, w, true);  // [M,O]
  const Tensor biased = with_bias(backend_, backend_.clone(term), b_);
  if (world_.rank() == 0) term = backend_.clone(biased);
  draw(session_, "terms of Y, b in the first", term, Pieces::Terms);
  const Tensor y = g.forward(backend_, world_, term, Y_.shape());  // all-reduce
  out << "g, an all-reduce: Y is off by " << right(y, Y_) << "\n\n";
  const Tensor dy = g.backward(backend_, world_, dY, Y_.shape());  // nothing
  const Tensor dx = multiply(backend_, dy, w, false);              // [M,I/P]
  draw(session_, "dX, from all of dY: finished columns, g sends nothing on the way back", dx, Pieces::Columns);
  right(dx, part(dX_, 1));

  fault("g's all-reduce on the way forward", "Y is a rank's own term", term, Y_);
  fault("b added by every rank", cat("Y has b ", P, P == 1 ? " time" : " times"),
        g.forward(backend_, world_, biased, Y_.shape()), Y_);
  const Tensor again = f.backward(backend_, world_, dY, Y_.shape());
  fault("an all-reduce for g on the way back too", cat("dX is ", P, P == 1 ? " time" : " times", " itself"),
        multiply(backend_, again, w, false), part(dX_, 1));
}

void Chapter::embedding_by_rows() {
  const Tensor table = backend_.from_host(numbers_.table, {sizes_.V, sizes_.I});
  const Tensor mine = part(table, 0);  // [V/P,I]
  const Chunk rows = chunk(sizes_.V, world_.size(), world_.rank());
  auto ids = backend_.to_host<int32_t>(numbers_.ids);
  auto& out = session_.out();
  out << "3. An Embedding by rows: a rank holds rows of the table, and gives zeros for the ids of others.\n\nids\n ";
  for (size_t i = 0; i < ids.size() && i < 16; ++i) out << " " << ids[i];
  out << "\n\n";
  Tensor whole = backend_.empty({sizes_.M, sizes_.I}), term = backend_.empty({sizes_.M, sizes_.I});
  backend_.embedding(numbers_.ids, table, 0, whole);
  backend_.embedding(numbers_.ids, mine, rows.offset, term);
  draw(session_, "table", mine, Pieces::Rows);
  draw(session_, "terms", term, Pieces::Terms);
  out << "g, an all-reduce: the rows are off by " << right(g.forward(backend_, world_, term, whole.shape()), whole)
      << "\n\n";

  // Without the zeros: an id of another rank, moved into this one's table, finds some row.
  for (auto& id : ids)
    id = static_cast<int32_t>(rows.offset +
                              std::clamp<int64_t>(id - rows.offset, 0, std::max<int64_t>(0, rows.size - 1)));
  backend_.embedding(backend_.from_host(ids, {sizes_.M}), mine, rows.offset, term);
  fault("zeros for the ids of other ranks", "rows of other ids are added",
        g.forward(backend_, world_, term, whole.shape()), whole);
}

std::unique_ptr<Module> Chapter::make(bool embedding) {
  if (embedding) return std::make_unique<Embedding>(backend_, sizes_.V, sizes_.I);
  return std::make_unique<Linear>(backend_, sizes_.I, sizes_.O, true);
}

void Chapter::fill(Module& module, const Numbers& numbers) {
  if (auto* linear = dynamic_cast<Linear*>(&module)) {
    linear->weight.fill(numbers.W);
    linear->bias->fill(numbers.b);
  } else {
    dynamic_cast<Embedding&>(module).weight.fill(numbers.table);
  }
}

std::string Chapter::calls_now() const {
  std::string calls;
  for (const Op op : all_ops)
    if (const int64_t n = traffic_.count(op)) calls += cat(calls.empty() ? "" : ", ", name_of(op), " ×", n);
  return calls.empty() ? "-" : calls;
}

double Chapter::formula(const Call& call) const {
  if (!call.op) return 0;
  const double P = world_.size();
  return (*call.op == Op::AllReduce ? 2 : 1) * (P - 1) / P * call.numbers * 4;
}

void Chapter::run(const std::string& name, const ParallelStyle& style, bool embedding, const Placement& input,
                  const Placement& output, Call forward, Call backward) {
  const auto serial = make(embedding), sharded = make(embedding);
  style.apply(*sharded, tp_);
  fill(*serial, numbers_);
  fill(*sharded, numbers_);
  const Tensor &x = embedding ? numbers_.ids : numbers_.X, &dy = embedding ? numbers_.dX : numbers_.dY;
  const Tensor y = serial->forward(backend_.clone(x)).take(backend_);
  const Tensor dx = serial->backward(backend_.clone(dy)).take(backend_);

  // A rank hands in its part, as a plain tensor where it is the whole; and gets its part of y.
  DTensor mine = backend_.clone(x);
  if (const Shard* cut = as_shard(input)) mine = DTensor::from_local(part(x, cut->dim), tp_, {input}, x.shape());
  const Shard* cut = as_shard(output);
  const auto measure = [&](const std::string& direction, const Call& call, const std::function<DTensor()>& way) {
    traffic_.clear();
    DTensor result = way();
    check_.add(cat(name, ", ", direction), traffic_.total(), call.op && world_.size() > 1 ? 1 : 0, formula(call));
    return std::tuple(result, calls_now(), show_bytes(traffic_.total().bytes));
  };
  const auto [my_y, forward_calls, forward_bytes] = measure("forward", forward, [&] { return sharded->forward(mine); });
  const auto [my_dx, backward_calls, backward_bytes] =
      measure("backward", backward, [&] { return sharded->backward(cut ? part(dy, cut->dim) : backend_.clone(dy)); });
  sent_.row(name, forward_calls, forward_bytes, show_bytes(formula(forward)), backward_calls, backward_bytes,
            show_bytes(formula(backward)));

  const auto whole = [&](const Tensor& local, const Placement& placement, const Shape& shape) {
    return DTensor::from_local(backend_.clone(local), tp_, {placement}, shape).full();
  };
  std::vector<std::string> row = {name, cat(right(whole(my_y.local(), output, y.shape()), y)),
                                  embedding ? "" : cat(right(whole(my_dx.local(), input, dx.shape()), dx))};
  const Parameters of_serial = parameters_of(*serial), of_sharded = parameters_of(*sharded);
  for (size_t i = 0; i < of_serial.size(); ++i) {
    Parameter& p = *of_sharded[i];
    row.push_back(cat(right(whole(p.gradient(), p.placement("tp"), p.global()), of_serial[i]->gradient())));
  }
  row.resize(5);
  differences_.add(row);
}

void Chapter::under_styles() {
  const auto& [M, I, O, V] = sizes_;
  const Call none, reduce_x{Op::AllReduce, M * I}, reduce_y{Op::AllReduce, M * O};
  const Call gather_x{Op::AllGather, M * I}, gather_y{Op::AllGather, M * O};
  const Call scatter_x{Op::ReduceScatter, M * I}, scatter_y{Op::ReduceScatter, M * O};
  const Replicate R;
  const Shard rows{0}, columns{1};  // of x and y
  session_.out() << "5. The same as modules under a style; an Embedding of " << V << " ids too\n\n";

  run("Linear by columns", ColwiseParallel(), false, R, columns, none, reduce_x);
  run("Linear by columns, input S(0)", ColwiseParallel().input(rows), false, rows, columns, gather_x, scatter_x);
  run("Linear by columns, output R", ColwiseParallel().output(R), false, R, R, gather_y, reduce_x);
  run("Linear by rows", RowwiseParallel(), false, columns, R, reduce_y, none);
  run("Linear by rows, output S(0)", RowwiseParallel().output(rows), false, columns, rows, scatter_y, gather_y);
  run("Linear by rows, input R", RowwiseParallel().input(R), false, R, R, reduce_y, gather_x);
  run("Embedding by columns", ColwiseParallel(), true, R, columns, none, none);
  run("Embedding by columns, output R", ColwiseParallel().output(R), true, R, R, gather_x, none);
  run("Embedding by rows", RowwiseParallel().input(R), true, R, R, reduce_x, none);
  run("Embedding by rows, output S(0)", RowwiseParallel().input(R).output(rows), true, R, rows, scatter_x, gather_x);
}

void sharded_linear(Session& session) {
  Sizes sizes;
  Cli cli("04_sharded_linear",
          "a Linear and an Embedding cut by columns and by rows, forward and backward, with f and g");
  cli.add("--rows", sizes.M, "rows of x").positive();
  cli.add("--in", sizes.I, "features of x").positive();
  cli.add("--out", sizes.O, "features of y").positive();
  cli.add("--vocab", sizes.V, "ids of the embedding").positive();
  cli.parse(session);
  require_usage(std::max({sizes.M, sizes.I, sizes.O, sizes.V}) <= 400, "--rows ", sizes.M, " --in ", sizes.I, " --out ",
                sizes.O, " --vocab ", sizes.V, ": each may be 400 at most, so that f32 holds every sum exactly");
  Chapter chapter(session, sizes);
  chapter.by_columns();
  chapter.by_rows();
  chapter.embedding_by_rows();
  chapter.wrong();
  chapter.under_styles();
  chapter.finish();
}

}  // namespace
}  // namespace course

int main(int argc, char** argv) { return course::run_program(argc, argv, course::sharded_linear); }
