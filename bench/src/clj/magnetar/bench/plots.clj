(ns magnetar.bench.plots
  "Plots of results as SVG files with logarithmic scales.

  Written by hand, since the libraries that draw charts draw each letter as a path: a third of a megabyte for a plot."
  (:require
   [clojure.java.io :as io]
   [clojure.string :as str])
  (:import
   (java.util Locale)))

(set! *warn-on-reflection* true)

(def ^:private colors
  ["#3465a4" "#f0a848" "#73a946" "#b14a7c" "#7f7f7f"])

(defn- escaped [text]
  (str/escape (str text) {\& "&amp;" \< "&lt;" \" "&quot;"}))

(defn- in-short [x]
  (if (float? x) (String/format Locale/ROOT "%.1f" (object-array [x])) (escaped x)))

(defn- element [tag attributes & content]
  (str "<" (name tag) (apply str (for [[k v] attributes] (str " " (name k) "=\"" (in-short v) "\""))) ">"
       (apply str content) "</" (name tag) ">\n"))

(defn- text [x y anchor words]
  (element :text {:x (double x) :y (double y) :text-anchor anchor} (escaped words)))

(defn- line [x1 y1 x2 y2 color]
  (element :line {:x1 (double x1) :y1 (double y1) :x2 (double x2) :y2 (double y2) :stroke color}))

(defn- log10 ^double [x]
  (Math/log10 (double x)))

(defn- decades
  "The powers of ten around the values, at least from `low` to `high`."
  [low high values]
  [(long (reduce min low (map #(Math/floor (log10 %)) values)))
   (long (reduce max high (map #(Math/ceil (log10 %)) values)))])

(defn- scale
  "From a value to a place between `from` and `to`."
  [[low high] from to]
  (fn [x]
    (+ (double from) (* (- (double to) (double from)) (/ (- (log10 x) (double low)) (- (double high) (double low)))))))

(defn- powers [[low high]]
  (for [k (range low (inc (long high)))] (Math/pow 10.0 (double k))))

(defn- label [x]
  (if (< (double x) 1.0) (str/replace (format "%.3f" x) #"0+$" "") (format "%,d" (Math/round (double x)))))

(defn- legend [x y names]
  (apply str
    (map-indexed (fn [i named]
                   (str (element :rect {:x (double x) :y (+ (double y) (* 18.0 (long i))) :width 10 :height 10 :fill (colors i)})
                        (text (+ 15.0 (double x)) (+ 9.0 (double y) (* 18.0 (long i))) "start" named)))
                 names)))

(defn- save [file width height & content]
  (let [file (io/file file)]
    (io/make-parents file)
    (spit file (element :svg {:xmlns "http://www.w3.org/2000/svg" :width width :height height :viewBox (str "0 0 " width " " height)
                              :font-family "sans-serif" :font-size 12}
                 (element :rect {:width width :height height :fill "white"})
                 (apply str content)))
    file))

;; --- bars

(def ^:private row-height 34.0)

(defn- bar [x y ratio color]
  (let [from (double (x 1.0)) to (double (x ratio))]
    (str (element :rect {:x (min from to) :y y :width (max 1.0 (abs (- to from))) :height 11 :fill color})
         (if (< to from) (text (- to 3.0) (+ 9.5 (double y)) "end" (format "%.2f" ratio)) (text (+ to 3.0) (+ 9.5 (double y)) "start" (format "%.2f" ratio))))))

(defn- bar-rows [x workloads series]
  (for [[i workload] (map-indexed vector workloads)
        :let [y (+ 60.0 (* (double row-height) (long i)))]]
    (str (text 300 (+ y 15.0) "end" workload)
         (apply str (for [[s [_ ratios]] (map-indexed vector series) :when (get ratios workload)]
                      (bar x (+ y (* 13.0 (long s))) (double (get ratios workload)) (colors s)))))))

(defn bars
  "Writes horizontal bars of ratios, which begin at 1, as an SVG file: `series` is pairs of a name and a map from a workload to a ratio.

  Example: (bars (io/file \"x.svg\") \"Beside Go\" [\"ring\"] [[\"Magnetar\" {\"ring\" 1.2}]])"
  [file title workloads series]
  (let [range-of (decades -1.0 1.0 (mapcat (comp vals second) series))
        x (scale range-of 350.0 850.0)
        bottom (+ 62.0 (* (double row-height) (count workloads)))]
    (save file 1040 (long (+ bottom 45.0))
      (text 520 20 "middle" (str title ": ours / theirs, to the left of 1 Magnetar is faster, or smaller"))
      (legend 900 60.0 (map first series))
      (apply str (for [power (powers range-of)]
                   (str (line (x power) 50 (x power) bottom (if (= 1.0 power) "black" "#cccccc")) (text (x power) (+ bottom 16.0) "middle" (label power)))))
      (apply str (bar-rows x workloads series)))))

;; --- lines

(defn- curve [x y points color]
  (let [places (for [[n value] points] [(x n) (y value)])]
    (str (element :polyline {:points (str/join " " (for [[px py] places] (str (in-short px) "," (in-short py)))) :fill "none" :stroke color :stroke-width 2})
         (apply str (for [[px py] places] (element :circle {:cx px :cy py :r 3 :fill color}))))))

(defn lines
  "Writes lines over N as an SVG file: `series` is a map from a peer to pairs [n value].

  Example: (lines (io/file \"x.svg\") \"ring\" \"ns per hop\" {\"Go\" [[10 200.0] [100 210.0]]})"
  [file title unit series]
  (let [all (mapcat val series)
        over (decades 1.0 2.0 (map first all))
        values (decades 1.0 2.0 (map second all))
        x (scale over 80.0 640.0)
        y (scale values 340.0 50.0)]
    (save file 820 400
      (text 360 24 "middle" (str title ": " unit))
      (apply str (for [n (powers over)] (str (line (x n) 50 (x n) 340 "#eeeeee") (text (x n) 358 "middle" (label n)))))
      (apply str (for [value (powers values)] (str (line 80 (y value) 640 (y value) "#cccccc") (text 74 (+ 4.0 (double (y value))) "end" (label value)))))
      (text 360 382 "middle" "N")
      (apply str (map-indexed (fn [i [_ points]] (curve x y points (colors i))) series))
      (legend 665 60.0 (keys series)))))
