# Runs before a Debian package is written, on the files that it will hold: manual pages are compressed, and zsh's completion is
# where Debian's zsh looks for it.
file(GLOB_RECURSE pages LIST_DIRECTORIES OFF ${CPACK_TEMPORARY_DIRECTORY}/*.[0-9])
list(FILTER pages INCLUDE REGEX "/man/man[0-9]/[^/]+$")
foreach(page IN LISTS pages)
  execute_process(COMMAND gzip --no-name --best --force ${page} COMMAND_ERROR_IS_FATAL ANY)
endforeach()
file(GLOB_RECURSE completions LIST_DIRECTORIES OFF ${CPACK_TEMPORARY_DIRECTORY}/_icecore)
foreach(completion IN LISTS completions)
  cmake_path(GET completion PARENT_PATH folder)
  cmake_path(REPLACE_FILENAME folder vendor-completions OUTPUT_VARIABLE debians)
  file(RENAME ${folder} ${debians})
endforeach()
