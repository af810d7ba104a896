// A panel as a picture: the browser draws its elements, with the style sheet of the page, into a PNG.

export async function picture(section) {
  const {width, height} = section.getBoundingClientRect();
  const css = await (await fetch(document.querySelector("link[rel=stylesheet]").href)).text();
  const copy = section.cloneNode(true);
  copy.querySelectorAll(".behind, script, form, .tip").forEach((element) => element.remove());
  copy.style.cssText = `width: ${width}px; height: ${height}px; margin: 0;`;
  const root = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  root.setAttribute("width", width);
  root.setAttribute("height", height);
  root.dataset.theme = getComputedStyle(document.documentElement).getPropertyValue("--is-dark").trim() === "1" ? "dark" : "light";
  const ground = document.createElementNS("http://www.w3.org/2000/svg", "foreignObject");
  ground.setAttribute("width", "100%");
  ground.setAttribute("height", "100%");
  const style = document.createElement("style");
  style.textContent = css;
  const page = document.createElement("main");
  page.style.cssText = "margin: 0; padding: 0; background: var(--page); color: var(--ink); font: 15px/1.5 system-ui, sans-serif;";
  page.append(style, copy);
  ground.append(page);
  root.append(ground);
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(new XMLSerializer().serializeToString(root))}`;
  await image.decode();
  const canvas = document.createElement("canvas");
  const sharp = Math.max(devicePixelRatio, 2);
  [canvas.width, canvas.height] = [width * sharp, height * sharp];
  const brush = canvas.getContext("2d");
  brush.scale(sharp, sharp);
  brush.drawImage(image, 0, 0);
  const link = document.createElement("a");
  link.download = `${section.querySelector("h2").textContent.trim()}.png`;
  link.href = canvas.toDataURL("image/png");
  link.click();
}
