# Assembles the lambda phage's reads of Debian's bowtie2-examples, in two runs of which the second goes on where the first
# stopped, and compares what is printed with EXPECTED and the contigs with those of the run on one rank.
#
#   PROGRAM   the command, with mpirun           READS  the folder of the examples
#   FOLDER    for the cluster and the contigs    FIRST  the contigs to compare with, or nothing
if(NOT EXISTS ${READS}/reads/longreads.fq.gz)
  message("Debian's package bowtie2-examples is not installed: its reads cannot be assembled")
  return()
endif()
file(REMOVE_RECURSE ${FOLDER})
file(MAKE_DIRECTORY ${FOLDER})
set(command ${PROGRAM} --store ${FOLDER}/kmers ${READS}/reads/reads_1.fq.gz ${READS}/reads/reads_2.fq.gz
            ${READS}/reads/longreads.fq.gz)
foreach(options "--stop-after;counts"
                "--reference;${READS}/reference/lambda_virus.fa.gz;--output;${FOLDER}/contigs.fa")
  execute_process(COMMAND ${command} ${options} RESULT_VARIABLE result OUTPUT_VARIABLE printed ERROR_VARIABLE complaints)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "kmer_contigs ended with ${result}: ${complaints}")
  endif()
endforeach()
file(REMOVE_RECURSE ${FOLDER}/kmers)
file(WRITE ${FOLDER}/printed ${printed})
file(READ ${EXPECTED} expected)
if(NOT printed STREQUAL expected)
  message(FATAL_ERROR "${FOLDER}/printed is not as ${EXPECTED}:\n${printed}")
endif()
if(FIRST)
  execute_process(COMMAND ${CMAKE_COMMAND} -E compare_files ${FOLDER}/contigs.fa ${FIRST} RESULT_VARIABLE different)
  if(different)
    message(FATAL_ERROR "${FOLDER}/contigs.fa is not ${FIRST}")
  endif()
endif()
