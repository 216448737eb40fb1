#include "cli/interrupt.h"

#include <unistd.h>

#include <csignal>
#include <initializer_list>

namespace qkv::cli {
namespace {

// What a signal handler may touch.
volatile std::sig_atomic_t held = 0;
volatile std::sig_atomic_t pending_signal = 0;

void handle(int signal) {
  // The second one ends it whatever is held: the first may have come while a pipe blocked.
  if (!held || pending_signal) ::_exit(128 + signal);
  pending_signal = signal;
}

}  // namespace

void end_on_interrupt() {
  for (int signal : {SIGINT, SIGTERM}) {
    struct sigaction action {};
    if (::sigaction(signal, nullptr, &action) != 0 || action.sa_handler == SIG_IGN) continue;
    action = {};
    action.sa_handler = handle;
    ::sigaction(signal, &action, nullptr);
  }
}

HoldInterrupts::HoldInterrupts() {
  held = 1;
}

HoldInterrupts::~HoldInterrupts() {
  held = 0;
  if (pending_signal) ::_exit(128 + pending_signal);
}

void HoldInterrupts::check() const {
  if (pending_signal) throw Interrupted{pending_signal};
}

}  // namespace qkv::cli
