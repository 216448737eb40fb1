#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <clocale>
#include <csignal>
#include <cstring>
#include <iostream>
#include <new>
#include <string>
#include <string_view>

#include "cli/commands.h"
#include "cli/console.h"
#include "cli/exit_code.h"
#include "cli/help.h"
#include "cli/interrupt.h"
#include "cli/suggest.h"
#include "viewer/display_text.h"

// The only file that prints, and the only one that turns exceptions into exit codes.

namespace qkv::cli {
namespace {

// The reader of our output went away, and whoever sent SIGPIPE had asked not to be told.
struct BrokenPipe {};
constexpr int kBrokenPipe = 128 + 13;

// A descriptor 0, 1 or 2 that the parent closed would be given to the next file opened, and then be written over. One
// opened for the wrong direction makes every use of it an error instead.
void occupy_standard_descriptors() {
  for (int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(descriptor, F_GETFD) < 0 && errno == EBADF)
      (void)::open("/dev/null", descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

void write_to_stdout(std::string_view text) {
  while (!text.empty()) {
    const ::ssize_t written = ::write(STDOUT_FILENO, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno == EPIPE) {
      throw BrokenPipe();
    } else if (errno != EINTR) {
      throw CommandError(ExitCode::kOutput, std::string("cannot write to standard output: ") + std::strerror(errno));
    }
  }
}

// Whatever is in it becomes one line that cannot control a terminal.
void write_line_to_stderr(std::string_view text) {
  std::cerr << "qkv: " + viewer::printable(text) + "\n" << std::flush;
}

Console make_console() {
  return {
      .print = write_to_stdout,
      .note = write_line_to_stderr,
      .progress =
          [is_terminal = ::isatty(STDERR_FILENO) == 1](std::string_view text) {
            if (is_terminal) std::cerr << "\r" + viewer::printable(text) + "\033[K" + (text.empty() ? "\r" : "");
            std::cerr << std::flush;
          },
  };
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands(nullptr)) names.push_back(command->get_name());
  return names;
}

std::vector<std::string> option_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

// CLI11 would take it for an argument too many.
void check_command(const CLI::App& app, std::string_view name) {
  const auto names = command_names(app);
  if (name.starts_with('-') || std::ranges::find(names, name) != names.end()) return;
  throw CommandError(ExitCode::kUsage, "unknown command '" + std::string(name) + "'" + did_you_mean(name, names) +
                                           " (qkv --help lists the commands)");
}

// The command that the arguments were for, as far as they were understood.
const CLI::App& innermost_command(const CLI::App& app) {
  const auto commands = app.get_subcommands();
  return commands.empty() ? app : innermost_command(*commands.front());
}

std::string usage_message(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App& command = innermost_command(app);
  const std::string name = full_name(command);
  std::string message = error.what();
  for (std::size_t at; (at = message.find('\n')) != std::string::npos;) message.replace(at, 1, "; ");
  const auto extras = command.remaining();
  if (dynamic_cast<const CLI::ExtrasError*>(&error) && !extras.empty()) {
    const std::string& first = extras.front();
    const bool is_option = first.starts_with('-');
    const auto names = is_option ? option_names(command) : command_names(command);
    std::string problem = "unknown " + (command.get_parent() ? command.get_name() : "command");
    if (names.empty()) problem = "unexpected argument";
    if (is_option) problem = "unknown option";
    message = problem + " '" + first + "'" + did_you_mean(is_option ? first.substr(0, first.find('=')) : first, names);
  }
  return message + " (" + name + " --help lists what there is)";
}

void add_commands(CLI::App& app, const Console& console) {
  add_look(app, console);
  add_lesson(app, console);
  add_tokenize(app, console);
  add_embed(app, console);
  add_attend(app, console);
  add_inspect(app, console);
  add_info(app, console);
  set_help(app, {.usage = "qkv COMMAND ...",
                 .examples = "qkv look \"The animal didn't cross the street because it was too tired.\" --from it\n"
                             "qkv attend q.npy k.npy v.npy --causal --out out.npy\n"
                             "echo \"one sentence a line\" | qkv embed\n"
                             "qkv look --help",
                 .notes = "Exit codes: 0 ok, 1 run time, 2 usage, 3 model, 4 input, 5 output, 130 interrupted."});
}

ExitCode parse_and_run(CLI::App& app, int argc, char** argv) {
  try {
    if (argc < 2) throw ShowShortHelp{&app};
    check_command(app, argv[1]);
    app.parse(argc, argv);  // runs the command
    if (app.get_subcommands().empty()) throw ShowShortHelp{&app};
  } catch (const CLI::CallForHelp&) {
    write_to_stdout(app.help());
  } catch (const CLI::CallForVersion& version) {
    write_to_stdout(std::string(version.what()) + "\n");
  } catch (const CLI::ParseError& error) {
    throw CommandError(ExitCode::kUsage, usage_message(app, error));
  } catch (const ShowShortHelp& help) {
    std::cerr << short_help(*help.command);
    return ExitCode::kUsage;
  }
  return ExitCode::kOk;
}

int run(int argc, char** argv) {
  ExitCode code = ExitCode::kRunTime;
  try {
    const Console console = make_console();
    CLI::App app("qkv: attention for C++, and a look at where a model looks");
    app.set_help_flag("-h,--help", "Print this help");
    app.set_version_flag("--version", "qkv " QKV_VERSION, "Print the version");
    add_commands(app, console);
    return static_cast<int>(parse_and_run(app, argc, argv));
  } catch (const Interrupted& interrupted) {
    return 128 + interrupted.signal;
  } catch (const BrokenPipe&) {
    return kBrokenPipe;
  } catch (const CommandError& error) {
    write_line_to_stderr(error.what());
    code = error.code();
  } catch (const std::bad_alloc&) {
    write_line_to_stderr("out of memory");
  } catch (const std::exception& error) {
    write_line_to_stderr(error.what());
  }
  return static_cast<int>(code);
}

}  // namespace
}  // namespace qkv::cli

int main(int argc, char** argv) {
  qkv::cli::occupy_standard_descriptors();
  std::setlocale(LC_CTYPE, "");  // whether the terminal speaks UTF-8
  qkv::cli::end_on_interrupt();
  std::signal(SIGXFSZ, SIG_IGN);  // a file beyond a limit is an error like any other
  return qkv::cli::run(argc, argv);
}
