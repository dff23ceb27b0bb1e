// What the terminal can show.
#pragma once

#include <string>

namespace course {

// True when stdout is a terminal, or COURSE_COLOUR says that there is one behind mpirun's pipe, and NO_COLOR
// (https://no-color.org) is not set.
bool colours();

// The text on the background of rank `rank`'s colour, or as it is where there are no colours. The palette repeats after 8
// and stays apart for the colour-blind: Okabe and Ito, "Color Universal Design", 2008.
std::string in_colour_of(int rank, const std::string& text);

}  // namespace course
