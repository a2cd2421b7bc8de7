(ns magnetar.bench.plots
  "Plots of results as SVG files, drawn by XChart."
  (:require
   [clojure.java.io :as io])
  (:import
   (java.awt Color)
   (java.io File)
   (java.util List)
   (java.util.function Function)
   (org.knowm.xchart HorizontalBarChart HorizontalBarChartBuilder VectorGraphicsEncoder VectorGraphicsEncoder$VectorGraphicsFormat XYChart XYChartBuilder)
   (org.knowm.xchart.internal.chartpart Chart)
   (org.knowm.xchart.style HorizontalBarStyler Styler$LegendPosition XYStyler)))

(set! *warn-on-reflection* true)

(System/setProperty "java.awt.headless" "true")

(defn- save
  ^File [^Chart chart ^File file]
  (.mkdirs (.getParentFile file))
  (doto (.getStyler chart)
    (.setChartBackgroundColor Color/WHITE)
    (.setPlotBorderVisible false)
    (.setLegendPosition Styler$LegendPosition/OutsideS))
  (VectorGraphicsEncoder/saveVectorGraphic chart (str file) VectorGraphicsEncoder$VectorGraphicsFormat/SVG)
  file)

(def ^:private as-ratio
  "Bars are drawn of logarithms, so that they grow to both sides from 1."
  (reify Function
    (apply [_ x] (format "%.2g" (Math/pow 10.0 (double x))))))

(defn bars
  "Writes horizontal bars of ratios, which begin at 1, on a logarithmic scale, as an SVG file: `series` is pairs of a name and a map from
  a workload to a ratio.

  Example: (bars (io/file \"x.svg\") \"Beside Go\" [\"ring\"] [[\"ours / theirs\" {\"ring\" 1.2}]])"
  [file title workloads series]
  (let [workloads (vec (reverse workloads))
        ^HorizontalBarChart chart (.build (doto (HorizontalBarChartBuilder.)
                                            (.width 900)
                                            (.height (int (+ 130 (* 34 (count workloads)))))
                                            (.title title)
                                            (.xAxisTitle "ours / theirs: to the left of 1 Magnetar is faster, or smaller")))]
    (doto ^HorizontalBarStyler (.getStyler chart)
      (.setXAxisTickLabelsFormattingFunction as-ratio)
      (.setAvailableSpaceFill 0.8))
    (doseq [[named ratios] series]
      (.addSeries chart ^String named ^List (mapv #(Math/log10 (double (get ratios % 1.0))) workloads) ^List workloads))
    (save chart (io/file file))))

(defn lines
  "Writes lines over N, both scales logarithmic, as an SVG file: `series` is a map from a peer to pairs [n value].

  Example: (lines (io/file \"x.svg\") \"ring\" \"ns per hop\" {\"Go\" [[10 200.0] [100 210.0]]})"
  [file title unit series]
  (let [^XYChart chart (.build (doto (XYChartBuilder.) (.width 800) (.height 420) (.title title) (.xAxisTitle "N") (.yAxisTitle unit)))]
    (doto ^XYStyler (.getStyler chart)
      (.setXAxisLogarithmic true)
      (.setYAxisMin 0.0))
    (doseq [[peer points] series]
      (.addSeries chart ^String peer (double-array (map first points)) (double-array (map second points))))
    (save chart (io/file file))))
