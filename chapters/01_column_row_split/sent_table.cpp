#include "chapters/01_column_row_split/sent_table.hpp"

#include <cmath>
#include <iomanip>

#include "common/support/session.hpp"

namespace course {

void SentTable::add(const std::string& what, const Sent& measured, int64_t calls, double bytes) {
  table_.row(what, measured.calls, calls, show_bytes(measured.bytes), show_bytes(bytes));
  const bool right = measured.calls == calls && std::abs(measured.bytes - bytes) <= 1e-9 * std::abs(bytes);
  if (!right && wrong_.empty())
    wrong_ = cat(what, ": sent ", measured.calls, " calls, ", show_bytes(measured.bytes), " bytes; the formula says ",
                 calls, " calls, ", show_bytes(bytes), " bytes");
}

void SentTable::check(Comm& comm) const {
  together(comm, [&] { require(wrong_.empty(), wrong_); });
}

std::string show_bytes(double bytes) {
  const double rounded = std::round(bytes);
  if (std::abs(bytes - rounded) < 1e-6) return group_digits(static_cast<int64_t>(rounded));
  std::ostringstream text;
  text << std::fixed << std::setprecision(1) << bytes;
  return text.str();
}

}  // namespace course
