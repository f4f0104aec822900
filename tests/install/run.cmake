# What the scripts of this folder share.
cmake_minimum_required(VERSION 3.25)

# run(command...): fails with what it printed if it fails, else leaves that in `said`.
function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE result OUTPUT_VARIABLE said ERROR_VARIABLE said
                  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_STRIP_TRAILING_WHITESPACE)
  if(NOT result EQUAL 0)
    list(JOIN ARGV " " command)
    message(FATAL_ERROR "${command}\nfailed (${result}):\n${said}")
  endif()
  set(said "${said}" PARENT_SCOPE)
endfunction()
