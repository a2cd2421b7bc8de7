(ns magnetar.bench.plots
  "Plots of results as SVG files, drawn by XChart."
  (:require
   [clojure.java.io :as io])
  (:import
   (java.awt Color)
   (java.io File)
   (org.knowm.xchart CategoryChart CategoryChartBuilder VectorGraphicsEncoder VectorGraphicsEncoder$VectorGraphicsFormat XYChart XYChartBuilder)
   (org.knowm.xchart.internal.chartpart Chart)
   (org.knowm.xchart.style CategoryStyler Styler$LegendPosition XYStyler)))

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

(defn bars
  "Writes bars of ratios, on a logarithmic scale, as an SVG file: `series` is a map from a peer to a map from a workload to a ratio.

  Example: (bars (io/file \"x.svg\") \"Ratios\" [\"ring\"] {\"Go\" {\"ring\" 1.2}})"
  [file title workloads series]
  (let [^CategoryChart chart (.build (doto (CategoryChartBuilder.) (.width 1100) (.height 560) (.title title) (.yAxisTitle "ours / theirs")))]
    (doto ^CategoryStyler (.getStyler chart)
      (.setYAxisLogarithmic true)
      (.setXAxisLabelRotation 30)
      (.setAvailableSpaceFill 0.8))
    (doseq [[peer ratios] series]
      (.addSeries chart ^String peer ^java.util.List (vec workloads) ^java.util.List (mapv #(get ratios %) workloads)))
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
