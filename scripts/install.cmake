# `cmake --install build --prefix DIR`: installs the programs, and the headers and libraries of the serving half for C++
# programs, which find_package(Folio) finds: target_link_libraries(… Folio::engine), or Folio::interfaces. Header names
# are the same as here, such as "infer/engine/loaded_model.h".
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(installed_programs bench chat explain export generate inspect perplexity)
foreach(name IN ITEMS serve tokenize train verify)  # require Boost, zlib or LibTorch
  if(TARGET ${name})
    list(APPEND installed_programs ${name})
  endif()
endforeach()
set_target_properties(${installed_programs} PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)  # LibTorch is not copied
install(TARGETS ${installed_programs} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})

set(FOLIO_INCLUDE ${CMAKE_INSTALL_INCLUDEDIR}/folio)
set_target_properties(folio_engine PROPERTIES EXPORT_NAME engine)
set_target_properties(folio_interfaces PROPERTIES EXPORT_NAME interfaces)
install(TARGETS folio_options folio_core folio_jinja folio_data folio_forms folio_reference folio_infer folio_cuda folio_engine
                folio_interfaces
        EXPORT FolioTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}/folio INCLUDES DESTINATION ${FOLIO_INCLUDE})
add_dependencies(programs folio_interfaces)  # no program links it
install(EXPORT FolioTargets NAMESPACE Folio:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Folio)
foreach(folder IN ITEMS src/core src/jinja data infer/cache infer/cpu infer/engine infer/forms infer/forward infer/interfaces infer/machines
                        infer/reference infer/sampling)
  string(REGEX REPLACE "^src/" "" there ${folder})
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/${folder}/ DESTINATION ${FOLIO_INCLUDE}/${there} FILES_MATCHING PATTERN "*.h")
endforeach()

configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/FolioConfig.cmake.in ${CMAKE_BINARY_DIR}/FolioConfig.cmake
                              INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Folio)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/FolioConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/FolioConfig.cmake ${CMAKE_BINARY_DIR}/FolioConfigVersion.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Folio)
