// A small file that is there whole or not at all.
#pragma once

#include <filesystem>
#include <functional>
#include <ostream>
#include <string>

namespace course {

// `write` writes beside `path`, under a name of this process, and the file is renamed then: what had the name stays until then.
// Throws Error with the path where it cannot; nothing is left aside.
void write_aside(const std::filesystem::path& path, const std::function<void(std::ostream&)>& write);
void write_aside(const std::filesystem::path& path, const std::string& text);

}  // namespace course
