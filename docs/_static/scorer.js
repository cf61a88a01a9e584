// The order of search results: pages for users come before the history and the evidence.
const LATER = /^(changelog|contributing|errors|mutation_testing|simulated_sets|torture|panel|rivals|paper_|performance|inference_truth)/;
var Scorer = {
  score: (result) => {
    const [page, score] = [result[0], result[4]];
    return page === "recipes" ? score + 3 : LATER.test(page) ? score - 16 : score;
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
