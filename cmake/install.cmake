# What `cmake --install` writes. Nothing in it names the prefix or this tree, so the result can be moved.
#
#   include/qkv/...                    headers
#   lib/libqkv_NAME.a or .so           one library per component
#   lib/cmake/qkv/                     find_package(qkv COMPONENTS NAME...)
#   lib/pkgconfig/qkv-NAME.pc          pkg-config
#   bin/qkv                            the command, where it is built

include(CMakePackageConfigHelpers)
set(cmake_dir ${CMAKE_INSTALL_LIBDIR}/cmake/qkv)
set(pkgconfig_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
cmake_path(RELATIVE_PATH CMAKE_INSTALL_FULL_LIBDIR BASE_DIRECTORY ${CMAKE_INSTALL_FULL_BINDIR} OUTPUT_VARIABLE bin_to_lib)
cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX BASE_DIRECTORY ${CMAKE_INSTALL_PREFIX}/${pkgconfig_dir}
  OUTPUT_VARIABLE pkgconfig_to_prefix)

# qkv_install(NAME DESCRIPTION [COMPONENTS it needs] [PACKAGES of pkg-config it links with])
function(qkv_install name description)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "" "COMPONENTS;PACKAGES")
  install(TARGETS qkv_${name} EXPORT qkv_${name}
    ARCHIVE COMPONENT ${name}
    LIBRARY COMPONENT ${name} NAMELINK_COMPONENT ${name}
    FILE_SET HEADERS COMPONENT ${name})
  install(EXPORT qkv_${name} NAMESPACE qkv:: FILE qkv-${name}-targets.cmake DESTINATION ${cmake_dir} COMPONENT ${name})

  # Whoever links a static library links what it needs as well; a shared one brings it.
  list(TRANSFORM arg_COMPONENTS REPLACE "(.+)" "qkv-\\1 = ${PROJECT_VERSION}")
  if(BUILD_SHARED_LIBS)
    list(JOIN arg_PACKAGES ", " requires_private)
  else()
    list(APPEND arg_COMPONENTS ${arg_PACKAGES})
  endif()
  list(JOIN arg_COMPONENTS ", " requires)
  configure_file(cmake/qkv.pc.in qkv-${name}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/qkv-${name}.pc DESTINATION ${pkgconfig_dir} COMPONENT ${name})
endfunction()

qkv_install(attention "attention for C++" PACKAGES libhwy tbb)
if(TARGET qkv_nn)
  qkv_install(nn "layers around qkv's attention" COMPONENTS attention)
endif()
if(TARGET qkv_io)
  qkv_install(io "safetensors and .npy files for qkv" COMPONENTS attention)
endif()
if(TARGET qkv_models)
  qkv_install(models "trained transformers on qkv's attention" COMPONENTS nn io PACKAGES libutf8proc)
endif()

configure_file(cmake/qkv-config.cmake.in qkv-config.cmake @ONLY)
write_basic_package_version_file(qkv-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/qkv-config.cmake ${PROJECT_BINARY_DIR}/qkv-config-version.cmake
  DESTINATION ${cmake_dir} COMPONENT attention)

if(QKV_BUILD_CLI)
  set_target_properties(qkv PROPERTIES INSTALL_RPATH "$ORIGIN/${bin_to_lib}")
  install(TARGETS qkv COMPONENT command)
endif()
