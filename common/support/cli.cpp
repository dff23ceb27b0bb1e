#include "common/support/cli.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <iostream>

#include "common/check.hpp"
#include "common/support/session.hpp"

namespace course {

struct Cli::Impl {
  explicit Impl(const std::string& what) : app(what) {}
  CLI::App app;
  SessionOptions session;
};

namespace {

CLI::Option& option(void* from) { return *static_cast<CLI::Option*>(from); }

CLI::Validator number_rule(const std::string& rule, bool (*holds)(double)) {
  return CLI::Validator(
      [rule, holds](const std::string& text) {
        double value = 0;
        if (!CLI::detail::lexical_cast(text, value)) return cat("'", text, "' is not a number");
        return std::isfinite(value) && holds(value) ? std::string() : cat("must be ", rule, ", not ", text);
      },
      "");
}

// A number as a person writes it, whole: 200, -1, 1e9. CLI11 alone turns what 64 bits cannot hold into their largest
// number.
CLI::Validator whole_number() {
  return CLI::Validator(
      [](std::string& text) {
        const char* end = text.data() + text.size();
        int64_t whole = 0;
        const auto read = std::from_chars(text.data(), end, whole);
        if (read.ec == std::errc() && read.ptr == end) return std::string();
        double real = 0;
        const auto also = std::from_chars(text.data(), end, real);
        if (also.ptr != end || !std::isfinite(real) || real != std::floor(real))
          return cat("'", text, "' is not a whole number");
        if (std::abs(real) >= 1e18) return cat(text, " is too large");
        text = std::to_string(static_cast<int64_t>(real));
        return std::string();
      },
      "");
}

CLI::Validator number() {
  return number_rule("finite", [](double) { return true; });
}

}  // namespace

Cli::Flag& Cli::Flag::at_most(int64_t most) {
  option(option_).check(CLI::Validator(
      [most](const std::string& text) {
        int64_t value = 0;
        const bool fits = CLI::detail::lexical_cast(text, value) && value <= most;
        return fits ? std::string() : cat("may be ", most, " at most, not ", text);
      },
      ""));
  return *this;
}

Cli::Flag& Cli::Flag::positive() {
  option(option_).check(number_rule("above 0", [](double x) { return x > 0; }));
  return *this;
}

Cli::Flag& Cli::Flag::not_negative() {
  option(option_).check(number_rule("0 or more", [](double x) { return x >= 0; }));
  return *this;
}

Cli::Flag& Cli::Flag::not_empty() {
  option(option_).check(
      CLI::Validator([](const std::string& text) { return text.empty() ? "is empty" : std::string(); }, ""));
  return *this;
}

Cli::Flag& Cli::Flag::one_of(const std::vector<std::string>& choices) {
  const auto listed = [](const std::vector<std::string>& words, const char* between) {
    std::string all;
    for (const auto& word : words) all += (all.empty() ? "" : between) + word;
    return all;
  };
  option(option_).type_name(listed(choices, "|"));  // in place of TEXT
  option(option_).check(CLI::Validator(
      [choices, listed](const std::string& text) {
        const bool known = std::ranges::find(choices, text) != choices.end();
        return known ? std::string() : cat("'", text, "' is none of: ", listed(choices, ", "));
      },
      ""));
  return *this;
}

Cli::Cli(const std::string& program, const std::string& what) : impl_(std::make_unique<Impl>(what)) {
  impl_->app.name(program);
  impl_->app.get_formatter()->column_width(34);
  add("--device", impl_->session.device, "auto: a GPU where there is one").one_of({"auto", "cpu", "cuda"});
  add("--tf32", impl_->session.tf32, "a GPU's f32 matrix products take 10 bits of mantissa: faster, three digits");
  add("--nccl", impl_->session.nccl, "GPUs' collectives by NCCL: auto (one rank a GPU), shared (untried), off")
      .one_of({"auto", "shared", "off"});
  add("--threads", impl_->session.threads, "threads a rank; 0: the node's cores over its ranks")
      .not_negative()
      .at_most(1024);
  add("--trace", impl_->session.trace, "file for what every rank did when, to open at ui.perfetto.dev").not_empty();
  add("--timeout", impl_->session.timeout, "seconds after which a wait counts as a hang; 0: never").not_negative();
  add("--check-collectives", impl_->session.check_collectives, "compare every collective over the ranks before it starts");
}

Cli::~Cli() = default;

Cli::Flag Cli::add(const std::string& flag, int64_t& value, const std::string& help) {
  return Flag(impl_->app.add_option(flag, value, help)->capture_default_str()->transform(whole_number()));
}

Cli::Flag Cli::add(const std::string& flag, double& value, const std::string& help) {
  return Flag(impl_->app.add_option(flag, value, help)->capture_default_str()->check(number()));
}

Cli::Flag Cli::add(const std::string& flag, std::string& value, const std::string& help) {
  return Flag(impl_->app.add_option(flag, value, help)->capture_default_str());
}

Cli::Flag Cli::add(const std::string& flag, std::vector<std::string>& values, const std::string& help) {
  return Flag(impl_->app.add_option(flag, values, help));
}

void Cli::add(const std::string& flag, bool& value, const std::string& help) {
  impl_->app.add_flag(flag, value, help);
}

bool Cli::given(const std::string& flag) const { return impl_->app.get_option(flag)->count() > 0; }

void Cli::parse(Session& session) {
  try {
    impl_->app.parse(session.argc(), session.argv());
  } catch (const CLI::CallForHelp&) {
    if (session.rank() == 0) std::cout << impl_->app.help();
    throw EarlyExit{0};
  } catch (const CLI::ParseError& error) {
    throw UsageError(cat(error.what(), " (", impl_->app.get_name(), " --help lists the flags)"));
  }
  session.set_up(impl_->session);
}

}  // namespace course
