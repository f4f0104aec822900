// What Sphinx's search finds, in the order that readers of a reference expect: first the object that has the name they
// typed, whole ("icecore::store::at") or without what is before it ("store::at", "at"), then the rest. Functions go before
// members of the same name, and names of fewer parts before others. The scores but the first two are those of Sphinx.
"use strict";

var Scorer = {
  named: 200,
  namedAtTheEnd: 100,

  score: ([docname, title, anchor, description, score, filename, kind]) => {
    if (kind !== "object") return score;
    const asked = new URLSearchParams(window.location.search).get("q")?.trim().toLowerCase().replace(/\(\)$/, "");
    const name = title.toLowerCase();
    const place = (/function/.test(description) ? 10 : 0) - name.split("::").length;
    if (name === asked) return score + Scorer.named + place;
    if (name.endsWith(`::${asked}`) || name.endsWith(`.${asked}`)) return score + Scorer.namedAtTheEnd + place;
    return score;
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
