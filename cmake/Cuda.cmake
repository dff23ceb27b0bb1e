# COURSE_CUDA: who runs the kernels of common/backend/cuda.
#   on        nvcc, cuBLAS: GPUs of compute capability 8.0 and 9.0, and PTX for later ones
#   off       nobody; --device cuda says so
#   emulate   the same .cu files, compiled by the C++ compiler against common/backend/cuda/emulate
set(COURSE_CUDA off CACHE STRING "the GPU backend: on, off or emulate")
set_property(CACHE COURSE_CUDA PROPERTY STRINGS on off emulate)
if(NOT COURSE_CUDA MATCHES "^(on|off|emulate)$")
  message(FATAL_ERROR "COURSE_CUDA is ${COURSE_CUDA}: it may be on, off or emulate")
endif()

# Adds the GPU's sources to a list, in a directory that has backend/.
function(course_cuda_sources list)
  set(all ${${list}})
  if(NOT COURSE_CUDA STREQUAL off)
    list(FILTER all EXCLUDE REGEX "backend/no_cuda.cpp")
    file(GLOB kernels CONFIGURE_DEPENDS backend/cuda/*.cu)
    file(GLOB others CONFIGURE_DEPENDS backend/cuda/*.cpp)
    list(APPEND all ${kernels} ${others})
  endif()
  if(COURSE_CUDA STREQUAL emulate)
    file(GLOB emulation CONFIGURE_DEPENDS backend/cuda/emulate/*.cpp)
    list(FILTER emulation EXCLUDE REGEX "emulate/machine_")
    if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
      list(APPEND emulation backend/cuda/emulate/machine_x86_64.cpp)
    else()
      list(APPEND emulation backend/cuda/emulate/machine_other.cpp)
    endif()
    list(APPEND all ${emulation})
    set_source_files_properties(${kernels} PROPERTIES LANGUAGE CXX
      COMPILE_OPTIONS "-x;c++;$<$<CONFIG:Release>:-O3>;-fno-math-errno;-fno-trapping-math")  # as the processor's own kernels
  endif()
  set(${list} ${all} PARENT_SCOPE)
endfunction()

function(course_link_cuda target)
  if(COURSE_CUDA STREQUAL emulate)
    target_include_directories(${target} PUBLIC ${CMAKE_SOURCE_DIR}/common/backend/cuda/emulate/include)
    target_link_libraries(${target} PUBLIC ${CMAKE_DL_LIBS})
  elseif(COURSE_CUDA STREQUAL on)
    target_link_libraries(${target} PUBLIC CUDA::cudart CUDA::cublas)
  endif()
endfunction()
