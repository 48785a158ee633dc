# Builds on x86-64 for 64-bit Arm, with Debian's cross compiler, and runs what was built in QEMU: see `make neon`.
# QEMU_CPU names another processor than the default, which has all that this QEMU knows.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
# Libraries that are compiled lie where scripts/bootstrap.sh unpacks them; of others, the system's headers do.
set(CMAKE_PREFIX_PATH ${CMAKE_CURRENT_LIST_DIR}/../build-neon/sysroot/usr)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L /usr/aarch64-linux-gnu)
