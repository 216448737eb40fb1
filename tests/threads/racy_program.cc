// Tasks that race: built with ThreadSanitizer only, to see that the suppressions for oneTBB do not blind it.

#include "qkv/core/executor.h"

int main() {
  qkv::TbbExecutor executor(2);
  qkv::Index sum = 0;
  executor.run(100000, [&](qkv::Index task, qkv::Index) { sum += task; });
  return sum == 0;
}
