"use strict";
// TwoMoon: the slider moves the outlines of all panels from frame to frame.
document.querySelectorAll(".moons").forEach((moons) => {
  const film = JSON.parse(moons.querySelector(".film").textContent);
  const [player, play, slider, now, which] = [".player", ".play", ".slider", ".now", ".which"].map((name) => moons.querySelector(name));
  const marks = [...moons.querySelectorAll("#marks path")];
  const panels = [...moons.querySelectorAll(".panels figure")].map((figure) => ({
    title: figure.dataset.title,
    svg: figure.querySelector("svg"),
    shades: [1, 2, 3, 4, 5].map((shade) => figure.querySelector(`.shade${shade}`)),
    even: figure.querySelector(".even"),
    accuracy: figure.querySelector(".accuracy"),
  }));
  const last = film.steps.length - 1;
  const step = (frame) => film.steps[frame].toLocaleString("en");

  const show = (frame) => {
    const set = Number(which.value);
    now.textContent = `step ${step(frame)} of ${step(last)}`;
    slider.setAttribute("aria-valuetext", now.textContent);
    panels.forEach((panel, method) => {
      const { accuracies, paths } = film.methods[method];
      const percent = accuracies[frame][set];
      panel.shades.forEach((shade, number) => shade.setAttribute("d", paths[frame][set][number]));
      panel.even.setAttribute("d", paths[frame][set][2]);
      panel.accuracy.textContent = `${percent.toFixed(2)} %`;
      panel.accuracy.classList.toggle("reached", percent >= film.success);
      const label = `${panel.title}, data set ${film.seeds[set]}, at step ${step(frame)}: ${percent.toFixed(2)} % of the points right`;
      panel.svg.setAttribute("aria-label", label);
    });
  };
  const chosen = () => show(Number(slider.value));

  let playing = 0;
  const pause = () => {
    clearInterval(playing);
    playing = 0;
    play.textContent = "Play";
  };
  const next = () => {
    slider.value = Number(slider.value) + 1;
    chosen();
    if (Number(slider.value) === last) {
      pause();
    }
  };
  const start = () => {
    if (Number(slider.value) === last) {
      slider.value = 0;
      chosen();
    }
    // Nothing moves before the user starts it, and slowly for users who prefer reduced motion.
    const slow = matchMedia("(prefers-reduced-motion: reduce)").matches;
    playing = setInterval(next, slow ? 1500 : 250);
    play.textContent = "Pause";
  };
  play.addEventListener("click", () => (playing ? pause() : start()));
  slider.addEventListener("input", () => {
    pause();
    chosen();
  });
  which.addEventListener("change", () => {
    marks.forEach((mark, number) => mark.setAttribute("d", film.marks[Number(which.value)][number]));
    chosen();
  });
  // Print the end of the training.
  window.addEventListener("beforeprint", () => {
    pause();
    show(last);
  });
  window.addEventListener("afterprint", chosen);
  player.hidden = false;
});
