# Generates the HTML reference of the C headers (doxygen) and of the Python package (pdoc). The
# target "docs" runs it:
#
#     cmake -DSOURCE=CHECKOUT -DOUT=FOLDER [-DPYTHON=PYTHON -DLIBRARY=LIBRUNG] \
#       -P cmake/reference.cmake
#
# It fails if a public function, struct, enumeration or macro has no comment. If a tool is missing,
# it reports this and leaves out that part.
cmake_minimum_required(VERSION 3.25)

file(MAKE_DIRECTORY ${OUT})
set(index "<!DOCTYPE html><meta charset=\"utf-8\"><title>rung</title><h1>rung</h1><ul>")

find_program(DOXYGEN doxygen)
if(DOXYGEN)
  configure_file(${CMAKE_CURRENT_LIST_DIR}/Doxyfile.in ${OUT}/Doxyfile @ONLY)
  execute_process(COMMAND ${DOXYGEN} ${OUT}/Doxyfile RESULT_VARIABLE failed)
  file(STRINGS ${OUT}/doxygen.log warnings)
  # fields with a clear name need no comment
  list(FILTER warnings EXCLUDE REGEX "Member .* \\(variable\\) of struct .* is not documented")
  if(failed OR warnings)
    list(JOIN warnings "\n  " text)
    message(FATAL_ERROR "the C reference: doxygen's exit status is ${failed}\n  ${text}")
  endif()
  string(APPEND index "<li><a href=\"c/files.html\">C headers</a>")
  message(STATUS "C headers: ${OUT}/c/files.html")
else()
  message(STATUS "C headers: left out, doxygen was not found (Debian: doxygen)")
endif()

if(PYTHON)
  set(environment ${CMAKE_COMMAND} -E env
    RUNG_LIBRARY=${LIBRARY} PYTHONPATH=${SOURCE}/python PYTHONDONTWRITEBYTECODE=1)
  execute_process(COMMAND ${environment} ${PYTHON} -c "import pdoc, numpy"
    RESULT_VARIABLE failed OUTPUT_QUIET ERROR_QUIET)
  if(failed)
    message(STATUS "Python package: left out, ${PYTHON} has no pdoc or no numpy; "
      "run 'pip install pdoc numpy' or configure with -DRUNG_DOCS_PYTHON=PYTHON")
  else()
    set(modules rung)
    foreach(module graphbolt distributed pyg)
      execute_process(COMMAND ${environment} ${PYTHON} -c "import rung.${module}"
        RESULT_VARIABLE failed OUTPUT_QUIET ERROR_VARIABLE why)
      if(NOT failed)
        list(APPEND modules rung.${module})
      elseif(why MATCHES "No module named '(torch[a-z_]*)")
        message(STATUS "Python package: without rung.${module}, ${PYTHON} has no ${CMAKE_MATCH_1}")
      else()
        message(FATAL_ERROR "rung.${module} cannot be imported\n${why}")
      endif()
    endforeach()
    execute_process(
      COMMAND ${environment} ${PYTHON} -m pdoc --docformat google -o ${OUT}/python ${modules}
      WORKING_DIRECTORY ${OUT} RESULT_VARIABLE failed)
    if(failed)
      message(FATAL_ERROR "the Python reference: pdoc's exit status is ${failed}")
    endif()
    string(APPEND index "<li><a href=\"python/rung.html\">Python package</a>")
    message(STATUS "Python package: ${OUT}/python/rung.html")
  endif()
endif()

file(WRITE ${OUT}/index.html "${index}</ul>\n")
