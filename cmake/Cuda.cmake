# COURSE_CUDA: who runs the kernels of common/backend/cuda.
#   auto      on where there is a CUDA toolkit and a GPU's driver, else off: without a driver nvcc would work for nobody
#   on        nvcc, cuBLAS: GPUs of compute capability 8.0 and 9.0, and PTX for later ones; no driver is needed to build
#   off       nobody; --device cuda says so
#   emulate   the same .cu files, compiled by the C++ compiler against common/backend/cuda/emulate
set(COURSE_CUDA auto CACHE STRING "the GPU backend: auto, on, off or emulate")
set_property(CACHE COURSE_CUDA PROPERTY STRINGS auto on off emulate)
if(NOT COURSE_CUDA MATCHES "^(auto|on|off|emulate)$")
  message(FATAL_ERROR "COURSE_CUDA is ${COURSE_CUDA}: it may be auto, on, off or emulate")
endif()

if(COURSE_CUDA MATCHES "^(auto|on)$")
  find_package(CUDAToolkit QUIET)
  if(CUDAToolkit_NVCC_EXECUTABLE AND NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
    set(CMAKE_CUDA_COMPILER ${CUDAToolkit_NVCC_EXECUTABLE})  # /usr/local/cuda/bin is often not in PATH
  endif()
endif()
if(COURSE_CUDA STREQUAL on AND NOT (CUDAToolkit_NVCC_EXECUTABLE AND TARGET CUDA::cublas))
  message(FATAL_ERROR "COURSE_CUDA is on, and no CUDA toolkit with nvcc and cuBLAS is found: CUDAToolkit_ROOT may name its folder")
endif()
# Whether there is a GPU's driver: /dev/nvidiactl is Linux, /dev/dxg is Windows' Linux.
set(COURSE_GPU_DRIVER FALSE)
foreach(sign /proc/driver/nvidia/version /dev/nvidiactl /dev/dxg)
  if(EXISTS ${sign})
    set(COURSE_GPU_DRIVER TRUE)
  endif()
endforeach()
if(COURSE_CUDA STREQUAL auto)
  set(COURSE_CUDA off)
  if(COURSE_GPU_DRIVER AND CUDAToolkit_NVCC_EXECUTABLE AND TARGET CUDA::cublas)
    set(COURSE_CUDA on)
    message(STATUS "GPU: CUDA ${CUDAToolkit_VERSION} and a driver are here, so the build is for GPUs too (COURSE_CUDA=off: not)")
  elseif(COURSE_GPU_DRIVER)
    message(STATUS "GPU: a driver is here, and no CUDA toolkit with nvcc and cuBLAS: the build is for processors alone")
  endif()
endif()

set(COURSE_CUDA_CHOSEN ${COURSE_CUDA} CACHE INTERNAL "what auto came to, for ./course doctor")

# How kernels are compiled for the emulated GPU: an access at an address that its size does not divide is a fault there too.
set(COURSE_EMULATE_CHECKS -fsanitize=alignment -fsanitize-undefined-trap-on-error)

# For those that see CUDA's own headers. Alone: what does not is compiled in just the same way where no GPU is emulated.
if(COURSE_CUDA STREQUAL emulate)
  set(course_cuda_include ${CMAKE_SOURCE_DIR}/common/backend/cuda/emulate/include)
endif()

# NCCL, the GPUs' own collectives: of the system, of the CUDA toolkit, or in NCCL_ROOT, a folder with include/ and lib/ such
# as nvidia/nccl of PyTorch's packages. The emulation has one of its own.
function(course_find_nccl)
  set(NCCL_ROOT "$ENV{NCCL_ROOT}" CACHE PATH "where NCCL is, if not where the system looks")
  find_path(NCCL_INCLUDE nccl.h HINTS ${NCCL_ROOT}/include ${CUDAToolkit_INCLUDE_DIRS})
  find_library(NCCL_LIBRARY NAMES nccl libnccl.so.2 HINTS ${NCCL_ROOT}/lib ${CUDAToolkit_LIBRARY_DIR})
  if(NOT NCCL_INCLUDE OR NOT NCCL_LIBRARY)
    message(STATUS "NCCL not found (libnccl-dev, or -DNCCL_ROOT=...): ranks on GPUs talk by way of the host's memory")
  endif()
endfunction()

# Adds the GPU's sources to a list, in a directory that has backend/ and comm/.
function(course_cuda_sources list)
  set(all ${${list}})
  if(COURSE_CUDA STREQUAL on)
    course_find_nccl()
  endif()
  if(COURSE_CUDA STREQUAL emulate OR (NCCL_INCLUDE AND NCCL_LIBRARY))
    list(FILTER all EXCLUDE REGEX "comm/no_nccl.cpp")
  else()
    list(FILTER all EXCLUDE REGEX "comm/nccl_")
  endif()
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
    # Shared memory is a thread_local here, which vectorised code may read in a way that binutils 2.40 cannot link, unless it
    # is told that all goes into one program.
    set_source_files_properties(${kernels} PROPERTIES LANGUAGE CXX COMPILE_OPTIONS  # as the processor's own kernels
      "-x;c++;${course_fast};-fno-math-errno;-fno-trapping-math;-ftls-model=local-exec;${COURSE_EMULATE_CHECKS}")
  endif()
  set(see_cuda ${all})
  list(FILTER see_cuda INCLUDE REGEX "backend/cuda/|comm/nccl_")
  set_source_files_properties(${see_cuda} PROPERTIES INCLUDE_DIRECTORIES "${course_cuda_include}")
  set(${list} ${all} PARENT_SCOPE)
endfunction()

function(course_link_cuda target)
  if(COURSE_CUDA STREQUAL emulate)
    target_link_libraries(${target} PUBLIC ${CMAKE_DL_LIBS})
  elseif(COURSE_CUDA STREQUAL on)
    target_link_libraries(${target} PUBLIC CUDA::cudart CUDA::cublas)
    if(NCCL_INCLUDE AND NCCL_LIBRARY)
      target_include_directories(${target} SYSTEM PUBLIC ${NCCL_INCLUDE})
      target_link_libraries(${target} PUBLIC ${NCCL_LIBRARY})
    endif()
  endif()
endfunction()
