// Before the first paint: the theme that was chosen, and whether this is a wall.
"use strict";
if (localStorage.getItem("theme")) document.documentElement.dataset.theme = localStorage.getItem("theme");
if (new URLSearchParams(location.search).get("wall")) document.documentElement.classList.add("wall");
