"""Pictures with boxes, labels and key points: COCO, Pascal VOC, YOLO, Open Images."""
