// A small file that is there whole or not at all.
#pragma once

#include <filesystem>
#include <string>

namespace course {

// Writes `text` beside `path`, under a name of this process, and renames it: what had the name stays until then. Throws Error
// with the path where it cannot; nothing is left aside.
void write_aside(const std::filesystem::path& path, const std::string& text);

}  // namespace course
