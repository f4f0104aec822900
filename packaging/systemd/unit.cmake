# The unit and the configuration name, or are in, folders that only the installation knows: `cmake --install` may be given
# another prefix than the build, and packages are made for /usr. Beneath /usr the configuration is in /etc; beneath any other
# prefix all is below that.

# icecore_write_unit(file prefix binaries configuration): the unit of a server that is installed beneath `prefix`, whose
# folders have these names there. Sets icecore_configuration_folder.
function(icecore_write_unit file prefix binaries configuration)
  cmake_path(ABSOLUTE_PATH binaries BASE_DIRECTORY ${prefix} OUTPUT_VARIABLE icecore_program_folder)
  if(prefix STREQUAL "/usr")
    set(prefix "/")
  endif()
  cmake_path(APPEND configuration icecore)
  cmake_path(ABSOLUTE_PATH configuration BASE_DIRECTORY ${prefix} OUTPUT_VARIABLE icecore_configuration_folder)
  configure_file(${CMAKE_CURRENT_FUNCTION_LIST_DIR}/icecore-server.service.in ${file} @ONLY)
  set(icecore_configuration_folder ${icecore_configuration_folder} PARENT_SCOPE)
endfunction()

# icecore_install_configuration(work binaries configuration): what cmake --install does with them; `work` is the build's folder.
function(icecore_install_configuration work binaries configuration)
  set(unit ${work}/installed/icecore-server.service)
  icecore_write_unit(${unit} ${CMAKE_INSTALL_PREFIX} ${binaries} ${configuration})
  file(INSTALL DESTINATION ${CMAKE_INSTALL_PREFIX}/lib/systemd/system TYPE FILE FILES ${unit})
  file(INSTALL DESTINATION ${icecore_configuration_folder} TYPE FILE FILES ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/../icecore.toml)
  file(INSTALL DESTINATION ${icecore_configuration_folder}/credentials TYPE DIRECTORY
       DIR_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE FILES "")
endfunction()
