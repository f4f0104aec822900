# Runs after the Debian packages are written: gives each the Installed-Size that dpkg-gencontrol would. cpack follows links and
# counts what they lead to again, so the package of a shared library would look two or three times as large as it is.
foreach(package IN LISTS CPACK_PACKAGE_FILES)
  set(tree ${CPACK_TEMPORARY_DIRECTORY}-unpacked)
  file(REMOVE_RECURSE ${tree})
  execute_process(COMMAND dpkg-deb --raw-extract ${package} ${tree} COMMAND_ERROR_IS_FATAL ANY)
  # Files and links in whole kibibytes, each inode once; a folder counts as one.
  execute_process(COMMAND find ${tree} -path ${tree}/DEBIAN -prune -o -printf "%i %y %s\\n"
                  COMMAND awk "!seen[$1]++ { size += $2 == \"d\" ? 1 : int(($3 + 1023) / 1024) } END { print size }"
                  OUTPUT_VARIABLE kibibytes OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  file(READ ${tree}/DEBIAN/control control)
  string(REGEX REPLACE "\nInstalled-Size: [0-9]+\n" "\nInstalled-Size: ${kibibytes}\n" control "${control}")
  file(WRITE ${tree}/DEBIAN/control "${control}")
  execute_process(COMMAND dpkg-deb --root-owner-group -Zgzip --build ${tree} ${package} OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
  file(REMOVE_RECURSE ${tree})
endforeach()
