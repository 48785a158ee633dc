# Cross-compiles to 64-bit Arm on x86-64 with Debian's compiler and runs the result in QEMU: see `make neon`. QEMU_CPU
# selects a processor; the default has every feature that this QEMU supports.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
# Compiled libraries are where scripts/bootstrap.sh unpacks them; header-only ones are the system's.
set(CMAKE_PREFIX_PATH ${CMAKE_CURRENT_LIST_DIR}/../build-neon/sysroot/usr)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L /usr/aarch64-linux-gnu)
