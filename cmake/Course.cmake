# course_chapter(NN_name)             chapters/NN_name/: main.cpp is the program, the other sources a library for later chapters
# course_test(DIR RANKS 1 2 ...)      tests/DIR/*.cpp: one Catch2 program, run once for each rank count
#   optional: NAME n  LABELS a b  TIMEOUT seconds
include_guard()
find_program(COURSE_MPIRUN NAMES mpirun.mpich mpirun mpiexec REQUIRED)

set_property(GLOBAL PROPERTY course_chapters "")
add_custom_target(unit_tests)  # all of course_test's programs
set(course_test_options -D_GLIBCXX_ASSERTIONS $<$<CONFIG:Release>:-O1>)  # -O1: they compile faster than they would run

function(course_chapter name)
  get_property(before GLOBAL PROPERTY course_chapters)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/chapters/${name}/*.cpp)
  list(REMOVE_ITEM sources ${CMAKE_SOURCE_DIR}/chapters/${name}/main.cpp)
  set(libraries course_common)
  if(before)
    list(GET before -1 previous)
    set(libraries chapter_${previous})
  endif()
  if(sources)
    add_library(chapter_${name} STATIC ${sources})
    target_link_libraries(chapter_${name} PUBLIC ${libraries})
  else()
    add_library(chapter_${name} INTERFACE)
    target_link_libraries(chapter_${name} INTERFACE ${libraries})
  endif()
  add_executable(${name} ${CMAKE_SOURCE_DIR}/chapters/${name}/main.cpp)
  target_link_libraries(${name} PRIVATE chapter_${name})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
  set_property(GLOBAL APPEND PROPERTY course_chapters ${name})
endfunction()

function(course_test dir)
  cmake_parse_arguments(ARG "" "NAME;TIMEOUT" "RANKS;LABELS;LIBRARIES" ${ARGN})
  string(REGEX REPLACE "^.*/" "" leaf ${dir})
  set(name ${leaf})
  if(ARG_NAME)
    set(name ${ARG_NAME})
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
    if(COURSE_CUDA STREQUAL emulate)
      set(ARG_TIMEOUT 300)
    endif()
  endif()
  set(labels ${ARG_LABELS} unit)
  if(dir MATCHES "^common")
    list(APPEND labels common)
  elseif(leaf MATCHES "^([0-9][0-9])_")
    list(APPEND labels chapter${CMAKE_MATCH_1})
    list(APPEND ARG_LIBRARIES chapter_${leaf})
  endif()
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/${dir}/*.cpp)
  add_executable(test_${name} ${sources})
  target_link_libraries(test_${name} PRIVATE course_test_main ${ARG_LIBRARIES})
  target_compile_options(test_${name} PRIVATE ${course_test_options})
  target_precompile_headers(test_${name} REUSE_FROM course_test_main)
  set_target_properties(test_${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  add_dependencies(unit_tests test_${name})
  # Cases with Catch2's tag [golden] are a ctest of their own: `ctest -L golden` runs just these. So are those tagged [long]
  # where the GPU is emulated, and `slow`. A hidden one (a tag that begins with a dot) is left to who names it.
  set(golden FALSE)
  set(long FALSE)
  foreach(source ${sources})
    foreach(tag golden long)
      file(STRINGS ${source} tagged REGEX "TEST_CASE.*\\[${tag}\\]")
      if(tagged)
        set(${tag} TRUE)
      endif()
    endforeach()
  endforeach()
  set(not_long "")
  if(long AND COURSE_CUDA STREQUAL emulate)
    set(not_long "~[long]")
  endif()
  foreach(ranks ${ARG_RANKS})
    course_add_ranks(${name}.${ranks} ${ranks} $<TARGET_FILE:test_${name}> ~[golden]~[.]${not_long})
    set_tests_properties(${name}.${ranks} PROPERTIES LABELS "${labels}" TIMEOUT ${ARG_TIMEOUT})
    if(golden)
      course_add_ranks(${name}.golden.${ranks} ${ranks} $<TARGET_FILE:test_${name}> [golden]${not_long})
      set_tests_properties(${name}.golden.${ranks} PROPERTIES LABELS "${labels};golden" TIMEOUT ${ARG_TIMEOUT})
    endif()
    if(not_long)
      course_add_ranks(${name}.long.${ranks} ${ranks} $<TARGET_FILE:test_${name}> [long])
      set_tests_properties(${name}.long.${ranks} PROPERTIES LABELS "${labels};slow" TIMEOUT ${ARG_TIMEOUT})
      if(golden)
        set_property(TEST ${name}.long.${ranks} APPEND PROPERTY LABELS golden)
      endif()
    endif()
  endforeach()
endfunction()

# A ctest named `test` that runs a command on so many ranks. Two cores' worth of ranks count as the whole machine.
function(course_add_ranks test ranks)
  add_test(NAME ${test} COMMAND ${COURSE_MPIRUN} -n ${ranks} ${ARGN} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(${test} PROPERTIES PROCESSORS ${ranks}
    ENVIRONMENT "NO_COLOR=1;COURSE_BUILD=${CMAKE_BINARY_DIR};GOMP_SPINCOUNT=1000")  # idle threads give their core back
endfunction()

# Tests of this directory that start many short programs, a few at once, and wait for them: each test counts as one core, and they
# begin first, beside each other.
function(course_beside_others)
  set_tests_properties(${ARGN} PROPERTIES PROCESSORS 1 COST 4)
endfunction()

# Where the GPU is emulated, the tests of this directory that match are `slow`: those that no device takes part in, and long
# ones that other counts of ranks stand for.
function(course_slow_when_emulated regex)
  if(COURSE_CUDA STREQUAL emulate)
    get_property(tests DIRECTORY PROPERTY TESTS)
    list(FILTER tests INCLUDE REGEX "${regex}")
    foreach(test ${tests})
      set_property(TEST ${test} APPEND PROPERTY LABELS slow)
    endforeach()
  endif()
endfunction()

# A slow test that cannot run on this machine: it says why and counts as skipped, or fails where CI sets COURSE_NEEDS_CLANG.
function(course_skip test why)
  add_test(NAME ${test}.skipped COMMAND sh -c "echo '${why}'; test -z \"$COURSE_NEEDS_CLANG\" && exit 77")
  set_tests_properties(${test}.skipped PROPERTIES LABELS slow SKIP_RETURN_CODE 77)
endfunction()

# A slow ctest named `test` that configures, builds and tests another build of the course, by the presets of one name.
function(course_other_build test preset)
  add_test(NAME ${test} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR} COMMAND sh -c "\
${CMAKE_COMMAND} --preset ${preset} && ${CMAKE_COMMAND} --build --preset ${preset} -j 2 && ${CMAKE_CTEST_COMMAND} --preset ${preset} -j 2")
  set_tests_properties(${test} PROPERTIES LABELS slow TIMEOUT 2400 RUN_SERIAL TRUE ENVIRONMENT "CMAKE_GENERATOR=${CMAKE_GENERATOR}")
endfunction()
