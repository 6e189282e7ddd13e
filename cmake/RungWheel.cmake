# SPDX-License-Identifier: Apache-2.0
# The files of the Python wheel, besides the modules: the library and its headers next to them, and
# the command with its man pages and completions where pip installs scripts and data. Included when
# scikit-build-core builds the wheel, which installs only the component "python".
set(RUNG_WHEEL_LICENSES "" CACHE PATH
  "Folder with the licences of the libraries that the wheel contains; empty: it contains none")

# auditwheel appends the folder of the copied libraries. Files, unlike targets, are not stripped.
set_property(TARGET rung_shared PROPERTY BUILD_RPATH "")
target_link_options(rung_shared PRIVATE $<$<CONFIG:Release>:LINKER:--strip-all>)

set(wheel_targets rung_shared rung_command)
install(FILES $<TARGET_FILE:rung_shared> DESTINATION rung RENAME librung.so COMPONENT python)
install(DIRECTORY include/rung DESTINATION rung/include COMPONENT python)
install(TARGETS rung_command RUNTIME DESTINATION ${SKBUILD_SCRIPTS_DIR} COMPONENT python)
if(TARGET completion)
  list(APPEND wheel_targets completion)
  rung_install_completions(${SKBUILD_DATA_DIR}/share python)
endif()
if(TARGET man)
  list(APPEND wheel_targets man)
endif()
install(FILES ${man_pages} DESTINATION ${SKBUILD_DATA_DIR}/share/man/man1 COMPONENT python)
if(RUNG_WHEEL_LICENSES)
  install(DIRECTORY ${RUNG_WHEEL_LICENSES}/ COMPONENT python
    DESTINATION ${SKBUILD_METADATA_DIR}/licenses)
endif()
add_custom_target(rung_wheel DEPENDS ${wheel_targets})
