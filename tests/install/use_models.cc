#include <qkv/core/error.h>
#include <qkv/models/load_model.h>
#include <qkv/text/utf8.h>

int main() {
  if (qkv::decode_utf8("ab", "main").size() != 2) return 1;
  try {
    qkv::load_model("missing");
  } catch (const qkv::IoError&) {
    return 0;
  }
  return 1;
}
