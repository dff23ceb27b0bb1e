// 03 device_mesh: ranks in a grid, the three ways a tensor can lie on them, and what each change from one to another
// sends.
#include "chapters/03_device_mesh/draw_mesh.hpp"
#include "chapters/03_device_mesh/transitions.hpp"
#include "common/support/cli.hpp"

namespace course {
namespace {

// Prints the words with which `what` is refused. Every rank calls, and every rank must be refused.
void show_refusal(Session& session, const std::string& what, const std::function<void()>& attempt) {
  std::string words;
  try {
    attempt();
  } catch (const Error& error) {
    words = error.what();
  }
  together(session.world(), [&] { require(!words.empty(), what, " was not refused"); });
  session.out() << "  " << what << "\n    " << words << "\n";
}

void show_refusals(Session& session, const DeviceMesh& line, const DeviceMesh& mesh, const Shape& shape) {
  Backend& backend = session.backend();
  const auto whole = [&](const Placements& placements) {
    return DTensor(backend.zeros(local_box(line, placements, shape).size), {line, placements, shape});
  };
  const DTensor replicated = whole({Replicate()}), rows = whole({Shard(0)});
  show_refusal(session, "R → P", [&] { replicated.redistribute({Partial()}); });
  show_refusal(session, "S(0) → P", [&] { rows.redistribute({Partial()}); });
  show_refusal(session, "R → S(2)", [&] { replicated.redistribute({Shard(2)}); });
  show_refusal(session, "R → S(0,/2)", [&] { replicated.redistribute({Shard(0, 2)}); });
  show_refusal(session, "the sum of an R and a P", [&] { add(backend, replicated, whole({Partial()})); });
  show_refusal(session, "a mesh of another size", [&] {
    DeviceMesh(session.world(), backend, {{"dp", 2}, {"tp", session.size()}});
  });
  show_refusal(session, "mesh[\"pp\"]", [&] { mesh["pp"]; });
}

void device_mesh(Session& session) {
  const int64_t ranks = session.size();
  int64_t dp = ranks % 2 == 0 && ranks > 2 ? 2 : 1, tp = 0;
  Cli cli("03_device_mesh", "a mesh of ranks; Shard, Replicate, Partial; what each change from one to another sends");
  cli.add("--dp", dp, "rows of the 2-D mesh").positive();
  cli.add("--tp", tp, "its columns; 0: the ranks that are left").not_negative();
  cli.parse(session);
  if (tp == 0) tp = std::max<int64_t>(1, ranks / dp);
  require_usage(dp <= ranks && tp <= ranks && dp * tp == ranks, "a mesh of --dp ", dp, " × --tp ", tp, " is not the ",
                ranks, ranks == 1 ? " rank" : " ranks", " there are");

  Traffic traffic;
  Recorder world(session.world(), traffic);
  const DeviceMesh line(world, session.backend(), {{"tp", ranks}});
  const DeviceMesh mesh(world, session.backend(), {{"dp", dp}, {"tp", tp}});
  std::ostream& out = session.out();
  const Shape shape = {5, 4};
  const Placement R = Replicate(), P = Partial(), S0 = Shard(0), S1 = Shard(1), blocks = Shard(1, 2);

  out << "1. The ranks in a line, and in a grid\n\n";
  draw_mesh(session, line);
  draw_mesh(session, mesh);

  out << "2. Which ranks hold each number of a tensor " << show(shape) << "\n\n";
  out << line.show() << "\n\n";
  draw_holders(session, line, shape, {{S0}, {S1}, {blocks}, {R}, {P}});
  out << mesh.show() << "\n\n";
  draw_holders(session, mesh, shape, {{S0, R}, {R, S0}, {S0, S1}, {S1, S0}, {S0, S0}, {P, S0}});

  out << "3. From one to another, and back for the gradient. Bytes that rank 0 sends: forward + backward\n\n";
  out << line.show() << "\n\n" << run_transitions(session, line, traffic, shape) << "\n";
  out << mesh.show() << "\n\n" << run_transitions(session, mesh, traffic, shape) << "\n";

  out << "4. What is refused\n\n";
  show_refusals(session, line, mesh, shape);
  out << "\nOK" << std::endl;
}

}  // namespace
}  // namespace course

int main(int argc, char** argv) { return course::run_program(argc, argv, course::device_mesh); }
