// Flags of a program, on top of CLI11 (kept in the .cpp: its header is slow to compile).
//
//   Cli cli("05_sharded_mlp", "column then row: one all-reduce for two matmuls");
//   int64_t batch = 4;
//   cli.add("--batch", batch, "sequences a step").positive();
//   cli.parse(session);            // --help prints and ends; a wrong word throws UsageError on every rank
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace course {

class Session;

// Ends the program in order with this exit code: --help, or a signal that asks for it.
struct EarlyExit {
  int code;
};

class Cli {
 public:
  // What may be said of one flag. Each throws UsageError at parse() with the flag and the value.
  class Flag {
   public:
    Flag& positive();                                  // > 0
    Flag& not_negative();                              // ≥ 0
    Flag& at_most(int64_t most);                       // ≤ most
    Flag& not_empty();                                 // a file or folder: "" is a shell variable that was not set
    Flag& one_of(const std::vector<std::string>& choices);  // --help lists them

   private:
    friend class Cli;
    explicit Flag(void* option) : option_(option) {}
    void* option_;
  };

  Cli(const std::string& program, const std::string& what);
  ~Cli();

  // The variable's value at this point is the default that --help shows. A number must be finite; one that is to be
  // whole may be written 1e9, and must fit 64 bits.
  Flag add(const std::string& flag, int64_t& value, const std::string& help);
  Flag add(const std::string& flag, double& value, const std::string& help);
  Flag add(const std::string& flag, std::string& value, const std::string& help);
  Flag add(const std::string& flag, std::vector<std::string>& values, const std::string& help);
  void add(const std::string& flag, bool& value, const std::string& help);
  bool given(const std::string& flag) const;  // after parse()

  // Reads the command line, then sets up the session by the flags that every program has: --device, --tf32, --nccl,
  // --threads, --timeout, --trace, --check-collectives.
  void parse(Session& session);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace course
