# Assembles the lambda phage's reads of Debian's bowtie2-examples, in two runs of which the second goes on where the first
# stopped, and compares what is printed with EXPECTED and the contigs with their SHA-256 in EXPECTED.sha256: they are the
# same on any number of ranks.
#
#   PROGRAM   the command, with mpirun    READS     the folder of the examples
#   FOLDER    for the cluster and the contigs
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
file(SHA256 ${FOLDER}/contigs.fa found)
file(READ ${EXPECTED}.sha256 expected)
string(STRIP "${expected}" expected)
if(NOT found STREQUAL expected)
  message(FATAL_ERROR "${FOLDER}/contigs.fa has SHA-256 ${found}, not ${expected}")
endif()
