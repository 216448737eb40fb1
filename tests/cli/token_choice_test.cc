#include "cli/token_choice.h"

#include <gmock/gmock.h>

#include "cli/exit_code.h"
#include "tests/text/text_support.h"

namespace qkv::cli {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using viewer::TokenRun;

const std::vector<std::string> kPieces{"the", "cat", "play", "##ing", "##s", "#", "sat", "##cat", "e"};

// A text, its tokens, and what a user asks for in it.
class Chooser {
 public:
  explicit Chooser(const std::string& text, bool words = false)
      : text_(text), encoding_(tokenizer_.encode(text)), tokens_(record_tokens(encoding_)), words_(words) {}

  TokenChoice find(const std::string& wanted) const {
    return find_tokens(tokenizer_, {text_, encoding_, tokens_, words_}, "--from", wanted);
  }
  std::string refusal(const std::string& wanted, ExitCode code = ExitCode::kUsage) const {
    try {
      find(wanted);
    } catch (const CommandError& error) {
      EXPECT_EQ(error.code(), code);
      return error.what();
    }
    return "no error";
  }

 private:
  Tokenizer tokenizer_{qkv::testing::bert_parts(kPieces)};
  std::string text_;
  Encoding encoding_;
  std::vector<viewer::RecordToken> tokens_;
  bool words_;
};

TEST(FindTokens, FindsAWordWhateverItsCaseAndAccents) {
  const Chooser chooser("the cat sat");  // [CLS] the cat sat [SEP]
  EXPECT_EQ(chooser.find("cat").run, (TokenRun{2, 3}));
  EXPECT_EQ(chooser.find(" CAT ").run, (TokenRun{2, 3}));
  EXPECT_EQ(chooser.find("c\u00e0t").run, (TokenRun{2, 3}));
}

TEST(FindTokens, FindsAWordOfSeveralPiecesAndSeveralWords) {
  const Chooser chooser("the playing cat sat");  // [CLS] the play ##ing cat sat [SEP]
  EXPECT_EQ(chooser.find("playing").run, (TokenRun{2, 4}));
  EXPECT_EQ(chooser.find("playing cat").run, (TokenRun{2, 5}));
}

TEST(FindTokens, TellsTheOtherPlaces) {
  const TokenChoice choice = Chooser("cat the cat cat").find("cat");
  EXPECT_EQ(choice.run, (TokenRun{1, 2}));
  EXPECT_THAT(choice.others, ElementsAre(TokenRun{3, 4}, TokenRun{4, 5}));
}

TEST(FindTokens, PrefersWholeWordsToParts) {
  const Chooser chooser("playing play");  // [CLS] play ##ing play [SEP]
  EXPECT_EQ(chooser.find("play").run, (TokenRun{3, 4}));
  EXPECT_THAT(chooser.find("play").others, IsEmpty());
  EXPECT_EQ(Chooser("playing the").find("play").run, (TokenRun{1, 2})) << "a part, where there is no whole word";
}

TEST(FindTokens, FindsPiecesAndSpecialTokensByTheirNames) {
  const Chooser chooser("the playing cat");
  EXPECT_EQ(chooser.find("##ing").run, (TokenRun{3, 4}));
  EXPECT_EQ(chooser.find("[CLS]").run, (TokenRun{0, 1}));
  EXPECT_EQ(chooser.find("[SEP]").run, (TokenRun{5, 6}));
}

TEST(FindTokens, TellsUnknownWordsApartByTheirLetters) {
  const Chooser chooser("qqq zzz");  // both are [UNK]
  EXPECT_EQ(chooser.find("zzz").run, (TokenRun{2, 3}));
  EXPECT_THAT(chooser.find("qqq").others, IsEmpty());
  EXPECT_THAT(chooser.refusal("vvv"), HasSubstr("\"vvv\" is not in the text"));
}

TEST(FindTokens, CountsTokensOrWords) {
  EXPECT_EQ(Chooser("the playing cat").find("#4").run, (TokenRun{4, 5}));
  const Chooser words("the playing cat", true);
  EXPECT_EQ(words.find("#2").run, (TokenRun{2, 4}));
  EXPECT_EQ(words.find("#3").run, (TokenRun{4, 5}));
  EXPECT_EQ(words.find("#0").run, (TokenRun{0, 1}));
}

TEST(FindTokens, SaysTheLastIndex) {
  EXPECT_EQ(Chooser("the cat").refusal("#4"), "--from: #4 is not there; the last token is #3");
  EXPECT_THAT(Chooser("the cat", true).refusal("#9"), HasSubstr("the last word is #3"));
  EXPECT_THAT(Chooser("the cat").refusal("#99999999999999999999"), HasSubstr("is not there"));
}

TEST(FindTokens, TakesASignThatIsNoIndexForText) {
  EXPECT_EQ(Chooser("the # cat").find("#").run, (TokenRun{2, 3}));
  EXPECT_THAT(Chooser("the cat").refusal("#1x"), HasSubstr("\"#1x\" is not in the text"));
  EXPECT_THAT(Chooser("the cat").refusal("#-1"), HasSubstr("\"#-1\" is not in the text"));
}

TEST(FindTokens, SaysWhatThereIsAndWhatWasMeant) {
  EXPECT_THAT(Chooser("the cat sat").refusal("catt"),
              AllOf(HasSubstr("--from: \"catt\" is not in the text; did you mean 'cat'?"),
                    HasSubstr("(its words: [CLS] the cat sat [SEP])")));
  EXPECT_THAT(Chooser("the cat").refusal(""), HasSubstr("\"\" is not in the text"));
}

TEST(FindTokens, ShowsNoTerminalCodes) {
  EXPECT_THAT(Chooser("the cat").refusal("\x1b[31m"), HasSubstr("\"\\x1b[31m\" is not in the text"));
  EXPECT_THAT(Chooser("the cat").refusal("\xff", ExitCode::kInput), HasSubstr("UTF-8"));
}

TEST(RecordTokens, KeepThePiecesOfAWordTogether) {
  const Tokenizer tokenizer(qkv::testing::bert_parts(kPieces));
  const auto tokens = record_tokens(tokenizer.encode("playing cat"));
  std::vector<std::string> texts;
  std::vector<Index> words, indices;
  std::vector<bool> special;
  for (const auto& token : tokens) {
    texts.push_back(token.text);
    words.push_back(token.word);
    indices.push_back(token.index);
    special.push_back(token.is_special);
  }
  EXPECT_THAT(texts, ElementsAre("[CLS]", "play", "##ing", "cat", "[SEP]"));
  EXPECT_THAT(words, ElementsAre(0, 1, 1, 2, 3));
  EXPECT_THAT(indices, ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(special, ElementsAre(true, false, false, false, true));
}

}  // namespace
}  // namespace qkv::cli
