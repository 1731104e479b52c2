// Tables that are wider than a phone can be scrolled by keys, too.
addEventListener("load", () => {
  for (const wide of document.querySelectorAll(".md-typeset__scrollwrap")) wide.tabIndex = 0;
});
