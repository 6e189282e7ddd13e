# SPDX-License-Identifier: Apache-2.0
# Folders in rung.pc. They are relative to the location of rung.pc, so that they stay valid with
# `cmake --install --prefix` and after the tree is moved. An absolute folder stays absolute.
set(RUNG_PC_PREFIX ${CMAKE_INSTALL_PREFIX})
if(NOT IS_ABSOLUTE ${CMAKE_INSTALL_LIBDIR})
  file(RELATIVE_PATH up /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
  string(REGEX REPLACE "/$" "" up "${up}")
  set(RUNG_PC_PREFIX "\${pcfiledir}/${up}")
endif()
foreach(dir INCLUDEDIR LIBDIR)
  if(IS_ABSOLUTE ${CMAKE_INSTALL_${dir}})
    set(RUNG_PC_${dir} ${CMAKE_INSTALL_${dir}})
  else()
    set(RUNG_PC_${dir} "\${prefix}/${CMAKE_INSTALL_${dir}}")
  endif()
endforeach()
