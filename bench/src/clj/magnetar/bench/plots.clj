(ns magnetar.bench.plots
  "Plots of results as SVG files with logarithmic scales, drawn by JFreeChart."
  (:require
   [clojure.java.io :as io])
  (:import
   (java.awt BasicStroke Color Dimension Font Paint Shape Stroke)
   (java.awt.geom Ellipse2D$Double Rectangle2D$Double)
   (java.io File)
   (java.text DecimalFormat DecimalFormatSymbols)
   (java.util ArrayList Collection Locale)
   (org.apache.batik.dom GenericDOMImplementation)
   (org.apache.batik.svggen SVGGeneratorContext SVGGraphics2D)
   (org.jfree.chart JFreeChart StandardChartTheme)
   (org.jfree.chart.axis AxisLocation CategoryAxis CategoryLabelPosition CategoryLabelPositions CategoryLabelWidthType LogAxis NumberTick)
   (org.jfree.chart.labels ItemLabelAnchor ItemLabelPosition StandardCategoryItemLabelGenerator)
   (org.jfree.chart.plot CategoryPlot DefaultDrawingSupplier Plot PlotOrientation ValueMarker XYPlot)
   (org.jfree.chart.renderer.category BarRenderer StandardBarPainter)
   (org.jfree.chart.renderer.xy XYLineAndShapeRenderer)
   (org.jfree.chart.text TextBlockAnchor)
   (org.jfree.chart.ui RectangleAnchor RectangleEdge RectangleInsets TextAnchor VerticalAlignment)
   (org.jfree.data.category DefaultCategoryDataset)
   (org.jfree.data.xy XYSeries XYSeriesCollection)))

(set! *warn-on-reflection* true)

(System/setProperty "java.awt.headless" "true")

(defn- supplier []
  (let [colors (into-array Paint (map #(Color/decode %) ["#3465a4" "#f0a848" "#73a946" "#b14a7c" "#7f7f7f"]))
        strokes (into-array Stroke [(BasicStroke. 2.0)])]
    (DefaultDrawingSupplier. colors colors strokes strokes (into-array Shape [(Ellipse2D$Double. -3.0 -3.0 6.0 6.0)]))))

(defn- theme ^StandardChartTheme []
  (let [plain (Font. Font/SANS_SERIF Font/PLAIN 12)]
    (doto (StandardChartTheme. "plain")
      (.setExtraLargeFont (Font. Font/SANS_SERIF Font/BOLD 14))
      (.setLargeFont plain)
      (.setRegularFont plain)
      (.setDrawingSupplier (supplier))
      (.setPlotBackgroundPaint Color/WHITE)
      (.setDomainGridlinePaint Color/LIGHT_GRAY)
      (.setRangeGridlinePaint Color/LIGHT_GRAY)
      (.setAxisOffset RectangleInsets/ZERO_INSETS)
      (.setBarPainter (StandardBarPainter.))
      (.setShadowVisible false))))

(defn- chart ^JFreeChart [title ^Plot plot]
  (.setOutlineVisible plot false)
  (let [chart (JFreeChart. title plot)]
    (.setPadding chart (RectangleInsets. 8.0 8.0 8.0 8.0))
    (doto (.getLegend chart)
      (.setPosition RectangleEdge/RIGHT)
      (.setVerticalAlignment VerticalAlignment/TOP))
    (.apply (theme) chart)
    chart))

(defn- decimal ^DecimalFormat [pattern]
  (DecimalFormat. pattern (DecimalFormatSymbols. Locale/ROOT)))

(defn- canvas
  "What draws into a new SVG document. Two digits of a place are enough."
  ^SVGGraphics2D [width height]
  (let [document (.createDocument (GenericDOMImplementation/getDOMImplementation) "http://www.w3.org/2000/svg" "svg" nil)
        context (doto (SVGGeneratorContext/createDefault document)
                  (.setComment nil)
                  (.setPrecision 2))]
    (doto (SVGGraphics2D. context false)
      (.setSVGCanvasSize (Dimension. width height)))))

(defn- save ^File [file width height ^JFreeChart chart]
  (let [graphics (canvas width height)]
    (.draw chart graphics (Rectangle2D$Double. 0.0 0.0 (double width) (double height)))
    (io/make-parents file)
    (with-open [out (io/writer file)]
      (.stream graphics (doto (.getRoot graphics) (.setAttribute "viewBox" (str "0 0 " width " " height))) out false false))
    (io/file file)))

;; --- axes

(defn- power ^double [k]
  (Math/pow 10.0 (double k)))

(defn- decades
  "The exponents of the powers of ten around the values, at least from `low` to `high`."
  [low high values]
  (let [exponents (map #(Math/log10 (double %)) values)]
    (range (long (reduce min low (map #(Math/floor (double %)) exponents)))
           (inc (long (reduce max high (map #(Math/ceil (double %)) exponents)))))))

(defn- tick [k edge]
  (let [anchor (if (RectangleEdge/isTopOrBottom edge) TextAnchor/TOP_CENTER TextAnchor/CENTER_RIGHT)]
    (NumberTick. (power k) (.format (decimal "#,##0.######") (power k)) anchor TextAnchor/CENTER 0.0)))

(defn- log-axis
  "A logarithmic axis with a tick at each decade, and room for a figure beyond the last ones.
  The ticks are our own: the library's are powers with an exponent, which it draws as paths instead of text."
  ^LogAxis [label decades]
  (let [axis (proxy [LogAxis] [label]
               (refreshTicks [_graphics _state _area edge] (ArrayList. ^Collection (mapv #(tick % edge) decades))))]
    (doto ^LogAxis axis
      (.setRange (/ (power (first decades)) 2.0) (* 2.0 (power (last decades))))
      (.setMinorTickMarksVisible false))))

(defn- name-axis
  "Names in one line, as long as they are."
  ^CategoryAxis []
  (let [place (CategoryLabelPosition. RectangleAnchor/RIGHT TextBlockAnchor/CENTER_RIGHT TextAnchor/CENTER_RIGHT 0.0 CategoryLabelWidthType/RANGE 0.6)]
    (doto (CategoryAxis.)
      (.setCategoryLabelPositions (CategoryLabelPositions/replaceLeftPosition CategoryLabelPositions/STANDARD place))
      (.setLowerMargin 0.005)
      (.setUpperMargin 0.005)
      (.setCategoryMargin 0.3))))

;; --- bars

(defn- bar-renderer
  "Bars from 1 on; the library takes a ratio below 1 for positive, and would write its figure on the bar."
  ^BarRenderer [^DefaultCategoryDataset ratios]
  (let [left (ItemLabelPosition. ItemLabelAnchor/OUTSIDE9 TextAnchor/CENTER_RIGHT)
        right (ItemLabelPosition. ItemLabelAnchor/OUTSIDE3 TextAnchor/CENTER_LEFT)
        renderer (proxy [BarRenderer] []
                   (getPositiveItemLabelPosition [row column]
                     (if (< (.doubleValue (.getValue ratios (int row) (int column))) 1.0) left right)))]
    (doto ^BarRenderer renderer
      (.setBase 1.0)
      (.setItemMargin 0.1)
      (.setMinimumBarLength 2.0)
      (.setDefaultItemLabelGenerator (StandardCategoryItemLabelGenerator. "{2}" (decimal "0.00")))
      (.setDefaultItemLabelsVisible true))))

(defn bars
  "Writes horizontal bars of ratios, which begin at 1, as an SVG file: `series` is pairs of a name and a map from a workload to a ratio.

  Example: (bars (io/file \"x.svg\") \"Beside Go\" [\"ring\"] [[\"Magnetar\" {\"ring\" 1.2}]])"
  [file title workloads series]
  (let [ratios (DefaultCategoryDataset.)
        axis (log-axis "ours / theirs; to the left of 1 Magnetar is faster, or smaller" (decades -1.0 1.0 (mapcat (comp vals second) series)))]
    (doseq [[named figures] series, workload workloads]
      (.addValue ratios ^Number (get figures workload) ^Comparable named ^Comparable workload))
    (save file 1040 (+ 100 (* (count workloads) (+ 10 (* 13 (count series)))))
      (chart title
        (doto (CategoryPlot. ratios (name-axis) axis (bar-renderer ratios))
          (.setOrientation PlotOrientation/HORIZONTAL)
          (.setRangeAxisLocation AxisLocation/BOTTOM_OR_LEFT)
          (.addRangeMarker (ValueMarker. 1.0 Color/BLACK (BasicStroke. 1.0))))))))

;; --- lines

(defn- series-of ^XYSeries [[named points]]
  (let [series (XYSeries. named)]
    (doseq [[n value] points] (.add series (double n) (double value)))
    series))

(defn lines
  "Writes lines over N as an SVG file: `series` is a map from a peer to pairs [n value].

  Example: (lines (io/file \"x.svg\") \"ring\" \"ns per hop\" {\"Go\" [[10 200.0] [100 210.0]]})"
  [file title unit series]
  (let [all (mapcat val series)
        over (XYSeriesCollection.)
        axis (fn ^LogAxis [label values] (log-axis label (decades 1.0 2.0 values)))]
    (doseq [one series] (.addSeries over (series-of one)))
    (save file 820 400
      (chart (str title ": " unit)
        (XYPlot. over (axis "N" (map first all)) (axis nil (map second all)) (doto (XYLineAndShapeRenderer.) (.setDrawOutlines false)))))))
